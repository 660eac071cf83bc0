// SPDX-License-Identifier: GPL-2.0
/* satcc as BPF programs: the module's file, with modules/bpf/ in place of the kernel's
 * headers. See tools/BPF.md.
 */
#define SATCC_OWNER	0x73617400	/* sat */
/* Beside the module's file there are the module's own. */
#include <core_state.h>
#include <owner.h>
#include <param.h>
#include "tcp_satcc.c"
#include "programs.h"

SATCC_RATE_PROGRAMS(satcc, satcc);
