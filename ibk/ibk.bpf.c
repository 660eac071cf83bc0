// SPDX-License-Identifier: GPL-2.0
/* ibk as BPF programs: compiles the module's file with the headers of modules/bpf/ in
 * place of the kernel's. See tools/BPF.md.
 */
#define SATCC_OWNER	0x69626b00	/* ibk */
#include "tcp_ibk.c"
#include "programs.h"

SATCC_RENO_PROGRAMS(ibk, ibk, ibk_init);
