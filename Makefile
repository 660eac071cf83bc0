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
	@echo 'make check     every test; about 5 minutes'
	@echo 'make unit      the tests that need no lab; about two minutes'
	@echo 'make modules   build the modules for KDIR ($(KDIR))'
	@echo 'make run SCENARIO=file.toml [POLICY=name] [SEED=n]   play one scenario'
	@echo 'make clean     remove what kbuild made in the tree'
	@echo 'make distclean remove everything made: build/, results/'
	@echo 'KERNEL=6.1 chooses the kernel of the lab, KDIR= or KERNELRELEASE= the one to build for.'

.PHONY: modules
modules:
	@test -e $(KDIR)/Makefile || { \
		echo "no kernel headers in $(KDIR): install linux-headers-$(KERNELRELEASE) or set KDIR" >&2; exit 1; }
	$(MAKE) -C $(KDIR) M=$(CURDIR) $@

# Not kbuild's clean: that removes every module below here, the lab's kernels' in build/ too.
.PHONY: clean
clean:
	find . -path ./build -prune -o -type f \( -name '*.o' -o -name '*.ko' -o -name '*.mod' \
		-o -name '*.mod.c' -o -name '.*.cmd' \) -exec rm -f {} +
	rm -f Module.symvers modules.order

.PHONY: bench
bench:
	@./tools/setup bench
	@$(PYTHON) -m bench --kernel $(KERNEL)

.PHONY: run
run:
	@./tools/setup bench
	@$(PYTHON) -m bench --kernel $(KERNEL) run $(SCENARIO) $(if $(POLICY),--cc $(POLICY)) $(if $(SEED),--seed $(SEED))

.PHONY: check unit
check:
	@./tools/setup check
	@$(PYTHON) -m pytest -c selftests/pytest.ini -p no:cacheprovider -q

unit:
	@./tools/setup check
	@$(PYTHON) -m pytest -c selftests/pytest.ini -p no:cacheprovider -q -m 'not lab' selftests/unit selftests/lint bench/tests

.PHONY: distclean
distclean:
	rm -rf build results
