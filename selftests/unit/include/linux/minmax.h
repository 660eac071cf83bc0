/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's, in user space: what stands in for it in BPF does here too. */
#include "../../../../modules/bpf/linux/minmax.h"
