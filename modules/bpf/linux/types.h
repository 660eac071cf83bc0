/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's types for BPF, from vmlinux.h, which the build generates. */
#ifndef _SATCC_BPF_TYPES_H
#define _SATCC_BPF_TYPES_H

/* net/tcp.h has its own struct tcp_congestion_ops. */
#define tcp_congestion_ops	tcp_congestion_ops___kernel
#include "vmlinux.h"
#undef tcp_congestion_ops
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#endif /* _SATCC_BPF_TYPES_H */
