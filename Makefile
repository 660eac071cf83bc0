# SPDX-License-Identifier: GPL-2.0
# For people.  kbuild reads Kbuild.

KERNELRELEASE ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KERNELRELEASE)/build
# Debian's own: the packages that tools/setup installs are for this one.
PYTHON ?= /usr/bin/python3
KERNEL ?= 6.1

.PHONY: help
help:
	@echo 'make bench     our policies beside the kernel'"'"'s over a GEO link; table and report'
	@echo 'make bench LONG=1   the same, and 100 Mbit/s with random loss: 10 minutes more'
	@echo 'make geo       transfers over public satellite accesses, beside published objectives'
	@echo 'make papers [PAPER=name] [SEEDS=n]   run the papers'"'"' experiments again, with verdicts'
	@echo 'make goals     what satcc is to reach, beside the others: hours; goes on where it was'
	@echo 'make matrix [SERIES=name]   build, load and play on each kernel of bench/matrix/kernels.toml: hours'
	@echo 'make check     every test; about 40 minutes on two cores'
	@echo 'make unit      the tests that need no lab; about two minutes'
	@echo 'make modules   build the modules for KDIR ($(KDIR))'
	@echo 'make install   build and install them, for modprobe; make dkms-install: for every kernel to come'
	@echo 'make uninstall remove what either of the two installed'
	@echo 'make run SCENARIO=file.toml [POLICY=name] [SEED=n]   play one scenario'
	@echo 'make clean     remove what kbuild made in the tree'
	@echo 'make distclean remove everything made: build/, results/'
	@echo 'KERNEL=6.1 chooses the kernel of the lab, KDIR= or KERNELRELEASE= the one to build for; DESTDIR= installs below a folder.'

.PHONY: headers
headers:
	@test -e $(KDIR)/Makefile || { \
		echo "no kernel headers in $(KDIR): install linux-headers-$(KERNELRELEASE) or set KDIR" >&2; exit 1; }

.PHONY: modules
modules: headers
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

# KERNELRELEASE if it was given, else what KDIR's headers say, else the running kernel's.
UTS = $(shell sed -n 's/^\#define UTS_RELEASE "\(.*\)"/\1/p' $(KDIR)/include/generated/utsrelease.h 2>/dev/null)
RELEASE = $(or $(if $(filter file,$(origin KERNELRELEASE)),$(UTS)),$(KERNELRELEASE))
INSTALLED = $(DESTDIR)/lib/modules/$(RELEASE)/updates/satcc
VERSION := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)
MODULES = $(filter-out %.mod.c,$(wildcard */tcp_*.c modules/*.c))
SOURCES = $(DESTDIR)/usr/src/satcc-$(VERSION)
# Where an ordinary user's PATH does not lead.
DEPMOD = PATH="$$PATH:/usr/sbin:/sbin" depmod
DKMS = PATH="$$PATH:/usr/sbin:/sbin" dkms

.PHONY: install
install: modules
	$(MAKE) -C $(KDIR) M=$(CURDIR) INSTALL_MOD_PATH=$(DESTDIR) INSTALL_MOD_DIR=updates/satcc modules_install
	$(DEPMOD) $(if $(DESTDIR),-b $(DESTDIR)) $(RELEASE)

# With DESTDIR the sources are put in place, for a package's script to call dkms.
.PHONY: dkms-install
dkms-install:
	$(if $(DESTDIR),,@$(DKMS) --version >/dev/null 2>&1 || { echo "no dkms: install the package dkms" >&2; exit 1; })
	$(if $(DESTDIR),,@$(MAKE) --no-print-directory headers)
	$(if $(DESTDIR),,@$(DKMS) remove satcc/$(VERSION) --all >/dev/null 2>&1 || :)
	rm -rf $(SOURCES)
	install -d $(SOURCES)
	cp --parents Makefile Kbuild COPYING dkms.conf $(MODULES) \
		$(sort $(wildcard $(addsuffix *.h,$(dir $(MODULES))))) $(SOURCES)
	$(if $(DESTDIR),,$(DKMS) install satcc/$(VERSION) -k $(RELEASE) --kernelsourcedir $(KDIR) --force)

.PHONY: uninstall
uninstall:
	$(if $(DESTDIR),,@$(DKMS) remove satcc/$(VERSION) --all 2>/dev/null || :)
	rm -rf $(INSTALLED) $(SOURCES)
	@if test -d $(DESTDIR)/lib/modules/$(RELEASE); then $(DEPMOD) $(if $(DESTDIR),-b $(DESTDIR)) $(RELEASE); fi

# Not kbuild's clean: that removes every module below here, the lab's kernels' in build/ too.
.PHONY: clean
clean:
	find . -path ./build -prune -o -type f \( -name '*.o' -o -name '*.ko' -o -name '*.mod' \
		-o -name '*.mod.c' -o -name '.*.cmd' \) -exec rm -f {} +
	rm -f Module.symvers modules.order

.PHONY: bench
bench:
	@./tools/setup bench
	@$(PYTHON) -m bench --kernel $(KERNEL) $(if $(filter 1,$(LONG)),--long)

.PHONY: geo
geo:
	@./tools/setup bench
	@$(PYTHON) -m bench geo --kernel $(KERNEL)

.PHONY: run
run:
	@./tools/setup bench
	@$(PYTHON) -m bench --kernel $(KERNEL) run $(SCENARIO) $(if $(POLICY),--cc $(POLICY)) $(if $(SEED),--seed $(SEED))

.PHONY: papers
papers:
	@./tools/setup papers
	@$(PYTHON) -m bench papers --kernel $(KERNEL) $(if $(PAPER),--paper $(PAPER)) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(PROFILE),--profile $(PROFILE)) $(if $(CORES),--cores $(CORES))

# Hours: `python3 -m bench papers --paper satcc --seeds 5 list` says how many.
.PHONY: goals
goals:
	@./tools/setup papers
	@$(PYTHON) -m bench papers --kernel $(KERNEL) --paper satcc --seeds $(or $(SEEDS),5) --results results/goals \
		$(if $(PROFILE),--profile $(PROFILE)) $(if $(CORES),--cores $(CORES))

.PHONY: matrix
matrix:
	@./tools/setup bench
	@$(PYTHON) -m bench matrix $(SERIES)

# A file of tests stays with one process.
PYTEST = $(PYTHON) -m pytest -c selftests/pytest.ini -p no:cacheprovider -q \
	-n $(or $(CORES),$(shell nproc)) --dist loadfile

.PHONY: check unit
check:
	@./tools/setup check
	@$(PYTEST)

unit:
	@./tools/setup check
	@$(PYTEST) -m 'not lab' selftests/unit selftests/lint selftests/bench

.PHONY: distclean
distclean: clean
	rm -rf build results
