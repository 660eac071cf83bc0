# SPDX-License-Identifier: GPL-2.0
# For users.  kbuild reads Kbuild.

KERNELRELEASE ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KERNELRELEASE)/build
# Debian's Python, because tools/setup installs packages for it.
PYTHON ?= /usr/bin/python3
KERNEL ?= 6.1

.PHONY: help
help:
	@echo 'make bench     compare our policies with the kernel'"'"'s over a GEO link; table and report'
	@echo 'make bench LONG=1   also play 100 Mbit/s with random loss: 10 minutes more'
	@echo 'make geo       play transfers over satellite access links, with published objectives'
	@echo 'make papers [PAPER=name] [SEEDS=n]   run the papers'"'"' experiments again, with verdicts'
	@echo 'make uses      play real uses (tunnel, proxy, file server, backhaul) for the figures of tools/uses'
	@echo 'make goals [ONLY="loss queue"]   play the goals of satcc, or only these, beside other policies; takes hours; resumes when interrupted'
	@echo 'make goals-windows [ONLY="loss queue"] [POLICY="satcc"]   play the goals with the logger on, and recompute each window'
	@echo 'make matrix [SERIES=name]   build, load and play on each kernel of bench/matrix/kernels.toml, in about 40 minutes'
	@echo 'make bpf-compare [SERIES=name] [SEEDS=n]   compare the packets of each policy'"'"'s module and BPF object'
	@echo 'make check [LONG=1]   run the tests, or with LONG=1 the long ones too, as CI does'
	@echo 'make unit      run the tests that need no guest, no network namespace and no module; about a minute'
	@echo 'make modules   build the modules for KDIR ($(KDIR))'
	@echo 'make bpf       build the policies as BPF objects, and their loader, in build/bpf'
	@echo 'make install   build and install the modules, and the tools below PREFIX ($(PREFIX)); as root'
	@echo 'make dkms-install   have DKMS build the modules for each installed and each new kernel; as root'
	@echo 'make install-tools  install the tools alone, which need no headers'
	@echo 'make install-bpf    install the policies as BPF objects, their loader and its unit'
	@echo 'make deb       build Debian packages of the modules (DKMS) and the tools, in build/deb'
	@echo 'make package-check [ROOTS="bookworm trixie"]   install them in minimal roots, and boot these; as root'
	@echo 'make uninstall remove the installed modules and tools'
	@echo 'make run SCENARIO=file.toml [POLICY=name] [SEED=n]   play one scenario'
	@echo 'make clean     remove the files that kbuild made in the tree'
	@echo 'make distclean also remove build/ and results/'
	@echo 'KERNEL=6.1 selects the kernel of the lab; KDIR= or KERNELRELEASE= the kernel to build for; DESTDIR= installs below a folder.'

.PHONY: headers
headers:
	@test -e $(KDIR)/Makefile || { \
		echo "no kernel headers in $(KDIR): install linux-headers-$(KERNELRELEASE) or set KDIR" >&2; exit 1; }

.PHONY: modules
modules: headers
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

# KERNELRELEASE if it was given, else the release of KDIR's headers, else the running kernel's.
UTS = $(shell sed -n 's/^\#define UTS_RELEASE "\(.*\)"/\1/p' $(KDIR)/include/generated/utsrelease.h 2>/dev/null)
RELEASE = $(or $(if $(filter file,$(origin KERNELRELEASE)),$(UTS)),$(KERNELRELEASE))
INSTALLED = $(DESTDIR)/lib/modules/$(RELEASE)/updates/satcc
VERSION := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)
MODULES = $(sort $(filter-out %.mod.c %.bpf.c,$(wildcard */tcp_*.c modules/*.c)))
NAMES = $(notdir $(basename $(filter-out %.mod.c,$(wildcard */tcp_*.c)))) satcc_log
SOURCES = $(DESTDIR)/usr/src/satcc-$(VERSION)
# An ordinary user's PATH lacks these folders.
DEPMOD = PATH="$$PATH:/usr/sbin:/sbin" depmod
DKMS = PATH="$$PATH:/usr/sbin:/sbin" dkms
# A folder of DESTDIR may lack modules.builtin, about which depmod complains.
INDEX = $(DEPMOD) $(if $(DESTDIR),-b $(DESTDIR)) $(RELEASE) $(if $(DESTDIR),2>/dev/null)

# kbuild signs modules if the kernel's configuration enables it, but only prints errors without a key.
KEY = $(or $(CONFIG_MODULE_SIG_KEY),$(shell sed -n 's/^CONFIG_MODULE_SIG_KEY="\(.*\)"/\1/p' $(KDIR)/.config 2>/dev/null))
HAVE_KEY = $(if $(wildcard $(KDIR)/certs/signing_key.x509),$(filter pkcs11:%,$(KEY))$(wildcard \
	$(filter /%,$(KEY)) $(if $(KEY),$(KDIR)/$(KEY))))

ROOT = $(if $(DESTDIR),:,test "$$(id -u)" = 0)

.PHONY: root
root:
	@$(ROOT) || { echo 'run this as root, or set DESTDIR to a folder of your own' >&2; exit 1; }

.PHONY: install install-modules
install: install-modules install-tools
	@echo 'installed for $(RELEASE) only: $(INSTALLED); tools: $(TOOLS); next: satcc route add PREFIX satcc, or man satcc'

# root comes first, so that a build without root does not start; a recursive make keeps this order with -j.
install-modules: root
	@$(MAKE) --no-print-directory modules
	@output=$$($(MAKE) -C $(KDIR) M=$(CURDIR) INSTALL_MOD_PATH=$(DESTDIR) INSTALL_MOD_DIR=updates/satcc \
		$(if $(HAVE_KEY),,CONFIG_MODULE_SIG_ALL=) modules_install 2>&1) || { echo "$$output" >&2; exit 1; }
	@$(INDEX)

# The tools are in one folder, and links lead to it.  `install-tools` needs no headers.
PREFIX ?= /usr/local
TOOLS = $(DESTDIR)$(PREFIX)
UNITS = $(TOOLS)/lib/systemd/system
MODPROBE = $(TOOLS)/lib/modprobe.d
EXAMPLES = $(TOOLS)/share/doc/satcc/examples
BASH_COMPLETIONS = $(TOOLS)/share/bash-completion/completions
ZSH_COMPLETIONS = $(TOOLS)/share/zsh/site-functions
MANUALS = $(filter-out tools/satcc-bpf.8,$(wildcard */*.[178]))
SCRIPTS = $(notdir $(wildcard tools/*.bt))
PROGRAMS = sbin/satcc bin/satcc-log bin/satcc-plot

.PHONY: install-tools
install-tools:
	@install -d $(TOOLS)/bin $(TOOLS)/sbin $(TOOLS)/share/satcc/satcc_operate $(TOOLS)/share/satcc/satcc_tools \
		$(addprefix $(TOOLS)/share/man/man,1 7 8) $(UNITS) $(MODPROBE) \
		$(BASH_COMPLETIONS) $(ZSH_COMPLETIONS) $(addprefix $(EXAMPLES)/,modules-load.d modprobe.d sysctl.d)
	@install -m 644 tools/satcc_operate/*.py tools/satcc_operate/*.json $(TOOLS)/share/satcc/satcc_operate
	@install -m 644 tools/*.json $(TOOLS)/share/satcc
	@install -m 644 tools/satcc_tools/*.py $(TOOLS)/share/satcc/satcc_tools
	@install tools/satcc tools/satcc-log tools/satcc-plot tools/satcc-bpftrace tools/*.bt $(TOOLS)/share/satcc
	@for program in $(PROGRAMS); do ln -sf "../share/satcc/$${program#*/}" "$(TOOLS)/$$program" || exit; done
	@for script in $(SCRIPTS); do ln -sf ../share/satcc/satcc-bpftrace "$(TOOLS)/sbin/satcc-$$script" || exit; done
	@for script in $(SCRIPTS); do \
		ln -sf satcc-bpftrace.8 "$(TOOLS)/share/man/man8/satcc-$$script.8" || exit; done
	@for page in $(MANUALS); do install -m 644 "$$page" "$(TOOLS)/share/man/man$${page##*.}" || exit; done
	@sed 's,/usr/local/sbin/satcc,$(PREFIX)/sbin/satcc,' tools/satcc-routes.service >$(UNITS)/satcc-routes.service
	@chmod 644 $(UNITS)/satcc-routes.service
	@install -m 644 tools/satcc-aliases.conf $(MODPROBE)
	@install -m 644 tools/completions/satcc $(BASH_COMPLETIONS)
	@install -m 644 tools/completions/_satcc $(ZSH_COMPLETIONS)
	@for folder in modules-load.d modprobe.d sysctl.d; do \
		install -m 644 "tools/examples/$$folder/satcc.conf" "$(EXAMPLES)/$$folder" || exit; done

# The policies as BPF objects; man satcc-bpf says how the unit loads one.
OBJECTS = $(TOOLS)/lib/satcc/bpf

.PHONY: install-bpf
install-bpf: bpf
	@install -d $(TOOLS)/sbin $(TOOLS)/share/man/man8 $(UNITS) $(OBJECTS)
	@install $(BPF)/satcc-bpf $(TOOLS)/sbin
	@install -m 644 $(BPF)/*.bpf.o $(OBJECTS)
	@install -m 644 tools/satcc-bpf.8 $(TOOLS)/share/man/man8
	@sed 's,/usr/local/,$(PREFIX)/,g' tools/satcc-bpf@.service >$(UNITS)/satcc-bpf@.service
	@chmod 644 $(UNITS)/satcc-bpf@.service
	@echo 'installed: objects in $(OBJECTS); next: systemctl enable --now satcc-bpf@satcc, or man satcc-bpf'

# With DESTDIR this only installs the sources, and a package's script calls dkms.  Otherwise dkms builds for
# each installed kernel with headers, or for the one that KERNELRELEASE or KDIR names.
NAMED = $(filter-out file,$(origin KERNELRELEASE) $(origin KDIR))
LIB = /lib/modules
BUILDABLE = $(notdir $(patsubst %/build/Makefile,%,$(wildcard $(LIB)/*/build/Makefile)))
KERNELS = $(if $(NAMED),$(RELEASE),$(BUILDABLE))
WITHOUT = $(if $(NAMED),,$(filter-out $(KERNELS),$(notdir $(wildcard $(LIB)/*))))

.PHONY: dkms-install dkms-sources
dkms-install: root
	$(if $(DESTDIR),,@$(DKMS) --version >/dev/null 2>&1 || { echo "no dkms: install the package dkms" >&2; exit 1; })
	$(if $(DESTDIR)$(if $(NAMED),,$(KERNELS)),,@$(MAKE) --no-print-directory headers)
	$(if $(DESTDIR),,@$(DKMS) remove satcc/$(VERSION) --all >/dev/null 2>&1 || :)
	@$(MAKE) --no-print-directory dkms-sources
	$(if $(DESTDIR),,@for kernel in $(KERNELS); do \
		$(DKMS) install satcc/$(VERSION) -k "$$kernel" --force \
		--kernelsourcedir "$(if $(NAMED),$(KDIR),$(LIB)/$$kernel/build)" || exit; done)
	$(if $(DESTDIR),,@echo 'installed: modules for $(KERNELS); DKMS builds them for each new kernel')
	$(if $(DESTDIR)$(if $(WITHOUT),,none),,@echo 'no headers, so no modules yet: $(WITHOUT); install linux-headers-RELEASE and DKMS builds them')

dkms-sources:
	@rm -rf $(SOURCES)
	@install -d $(SOURCES)
	@cp --parents Makefile Kbuild COPYING dkms.conf $(MODULES) \
		$(sort $(wildcard $(addsuffix *.h,$(dir $(MODULES))))) $(SOURCES)

# Both packages, in build/deb.
.PHONY: deb package-check
deb:
	@./tools/setup deb
	@./tools/deb

package-check:
	@./tools/setup package-check
	@./tools/deb
	@./tools/package-check $(ROOTS)

LOADED = $(if $(DESTDIR),/dev/null,/proc/modules)

.PHONY: uninstall
uninstall: root
	$(if $(DESTDIR),,@$(DKMS) remove satcc/$(VERSION) --all 2>/dev/null || :)
	@rm -rf $(INSTALLED) $(SOURCES) $(TOOLS)/share/satcc $(TOOLS)/lib/satcc $(TOOLS)/share/doc/satcc
	@rm -f $(addprefix $(TOOLS)/,$(PROGRAMS) sbin/satcc-bpf share/man/man8/satcc-bpf.8) $(addprefix $(TOOLS)/sbin/satcc-,$(SCRIPTS)) \
		$(addprefix $(TOOLS)/share/man/man8/satcc-,$(addsuffix .8,$(SCRIPTS))) \
		$(BASH_COMPLETIONS)/satcc $(ZSH_COMPLETIONS)/_satcc \
		$(foreach page,$(MANUALS),$(TOOLS)/share/man/man$(subst .,,$(suffix $(page)))/$(notdir $(page))) \
		$(UNITS)/satcc-routes.service $(UNITS)/satcc-bpf@.service $(MODPROBE)/satcc-aliases.conf
	@if test -d $(DESTDIR)/lib/modules/$(RELEASE); then $(INDEX); fi
	@for module in $(NAMES); do \
		! grep -qs "^$$module " $(LOADED) || echo "still loaded: $$module; when nothing uses it, run: rmmod $$module"; done

# This does not call kbuild's clean, which would also remove the modules of the lab's kernels in build/.
.PHONY: clean
clean:
	find . -path ./build -prune -o -type f \( -name '*.o' -o -name '*.ko' -o -name '*.mod' \
		-o -name '*.mod.c' -o -name '.*.cmd' \) -exec rm -f {} +
	rm -f Module.symvers modules.order

# Types come from the BTF of the running kernel, or of a vmlinux; the objects run on other kernels too.
BTF ?= /sys/kernel/btf/vmlinux
BPF ?= build/bpf
CLANG ?= clang
BPFTOOL = PATH="$$PATH:/usr/sbin:/sbin" bpftool
BPF_SOURCES = $(wildcard */*.bpf.c)
BPF_HEADERS = $(wildcard */tcp_*.c */*.h modules/bpf/*.h modules/bpf/*/*.h)
# The flags for compat.h: modules/bpf/net/tcp.h has these functions.
BPF_FLAGS = -g -O2 -target bpf -mcpu=v3 -Wall -Werror -Wno-unused-function -Wno-unused-variable \
	-ffile-prefix-map=$(CURDIR)=. -DSATCC_KERNEL=6001 -DSATCC_HAVE_SND_CWND \
	-DSATCC_HAVE_PARAM_MINMAX -DSATCC_HAVE_MIN_TSO_SEGS
vpath %.bpf.c $(sort $(dir $(BPF_SOURCES)))

.PHONY: bpf bpf-objects
bpf: bpf-objects $(BPF)/satcc-bpf
bpf-objects: $(addprefix $(BPF)/,$(notdir $(BPF_SOURCES:.c=.o)))

$(BPF)/vmlinux.h: $(BTF)
	@mkdir -p $(BPF)
	$(BPFTOOL) btf dump file $(BTF) format c > $@.part
	mv $@.part $@

# The second command removes the debug sections.
$(BPF)/%.bpf.o: %.bpf.c $(BPF)/vmlinux.h $(BPF_HEADERS)
	$(CLANG) $(BPF_FLAGS) -I$(BPF) -Imodules/bpf -Imodules -c $< -o $@.part
	$(BPFTOOL) gen object $@ $@.part
	@rm $@.part

# Linked statically, so that you can copy it to a host without the libraries.
LOADER_FLAGS ?= -O2 -static

$(BPF)/satcc-bpf: tools/satcc-bpf.c
	@mkdir -p $(BPF)
	$(CC) $(LOADER_FLAGS) -Wall -Wextra -Werror -o $@ $< -lbpf -lelf -lz

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

# This takes hours; `python3 -m bench papers --paper satcc list` prints how many. ONLY= plays a part.
.PHONY: goals
goals:
	@./tools/setup papers
	@$(PYTHON) -m bench papers --kernel $(KERNEL) $(if $(ONLY),$(addprefix --paper satcc/,$(ONLY)),--paper satcc) \
		$(if $(SEEDS),--seeds $(SEEDS) --budget 0) --results results/goals$(if $(filter-out 6.1,$(KERNEL)),-$(KERNEL)) \
		$(if $(PROFILE),--profile $(PROFILE)) $(if $(CORES),--cores $(CORES))

.PHONY: goals-windows
goals-windows:
	@./tools/setup papers
	@$(PYTHON) -m bench papers --kernel $(KERNEL) $(if $(ONLY),$(addprefix --paper satcc/,$(ONLY)),--paper satcc) \
		$(if $(CORES),--cores $(CORES)) windows $(addprefix --policy ,$(POLICY))

.PHONY: uses
uses:
	@./tools/setup papers
	@$(PYTHON) -m bench papers --kernel $(KERNEL) --paper uses --seeds $(or $(SEEDS),3) --results results/uses \
		$(if $(PROFILE),--profile $(PROFILE)) $(if $(CORES),--cores $(CORES))

.PHONY: matrix
matrix:
	@./tools/setup matrix
	@$(PYTHON) -m bench matrix $(SERIES)

# With SERIES= it prints the table and does not write it.
.PHONY: bpf-compare
bpf-compare:
	@./tools/setup check
	@$(PYTHON) -m bench pairs $(SERIES) $(if $(SEEDS),--seeds $(SEEDS))

# loadfile runs all tests of a file in one process.  One process more than processors: each waits at times
# for a lock, a download or a connection.  Python keeps its bytecode, since the tests start tools/satcc
# in each of some hundred cases; it is in build/, because root and a user may take turns in the tree.
PYTEST = env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/build/bytecode \
	$(PYTHON) -m pytest -c selftests/pytest.ini -p no:cacheprovider -q \
	-n $(or $(CORES),$(shell expr $$(nproc) + 1)) --dist loadfile

.PHONY: check unit
check:
	@./tools/setup check
	@$(PYTEST) $(if $(LONG),,-m 'not long')

unit:
	@./tools/setup check
	@$(PYTEST) -m 'not lab and not kbuild' selftests/unit selftests/lint selftests/bench

.PHONY: distclean
distclean: clean
	rm -rf build results
