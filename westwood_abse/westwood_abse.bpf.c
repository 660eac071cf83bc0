// SPDX-License-Identifier: GPL-2.0
/* westwood_abse as BPF programs: compiles the module's file with the headers of
 * modules/bpf/ in place of the kernel's. See tools/BPF.md.
 */
#define SATCC_OWNER	0x77616200	/* wab */
#include "tcp_westwood_abse.c"
#include "programs.h"

SATCC_RATE_PROGRAMS(westwood_abse, westwood);
