// SPDX-License-Identifier: GPL-2.0
/* constant_rate as BPF programs: compiles the module's file with the headers of
 * modules/bpf/ in place of the kernel's. See tools/BPF.md.
 */
#define SATCC_OWNER	0x63726100	/* cra */
#include "tcp_constant_rate.c"
#include "programs.h"

SATCC_RENO_PROGRAMS(constant_rate, constant_rate, constant_rate_init);
