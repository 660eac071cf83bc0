// SPDX-License-Identifier: GPL-2.0
/* mtsi as BPF programs: the module's file, with modules/bpf/ in place of the kernel's
 * headers. See tools/BPF.md.
 */
#define SATCC_OWNER	0x6d747300	/* mts */
#include "tcp_mtsi.c"
#include "programs.h"

SATCC_CHECK_PROGRAM(mtsi, mtsi_check_zones);
SATCC_RENO_PROGRAMS(mtsi, mtsi, mtsi_init);
