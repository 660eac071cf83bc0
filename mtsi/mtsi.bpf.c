// SPDX-License-Identifier: GPL-2.0
/* mtsi as BPF programs: compiles the module's file with the headers of modules/bpf/ in
 * place of the kernel's. See tools/BPF.md.
 */
#define SATCC_OWNER	0x6d747300	/* mts */
#include "tcp_mtsi.c"
#include "programs.h"

SATCC_CHECK_PROGRAM(mtsi, mtsi_check_zones);
SATCC_RENO_PROGRAMS(mtsi, mtsi, mtsi_init);
