/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's header for user space: uses the stand-in of modules/bpf. */
#include "../../../../modules/bpf/linux/minmax.h"
