// SPDX-License-Identifier: GPL-2.0
/* satcc as BPF programs: compiles the module's file with the headers of modules/bpf/ in
 * place of the kernel's. See tools/BPF.md.
 */
#define SATCC_OWNER	0x73617400	/* sat */
/* Include these first, because tcp_satcc.c would find the module's own beside it. */
#include <core_state.h>
#include <owner.h>
#include <param.h>
#include "tcp_satcc.c"
#include "programs.h"

SATCC_RATE_PROGRAMS(satcc, satcc);
