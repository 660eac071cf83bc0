// SPDX-License-Identifier: GPL-2.0
/* hybla_full as BPF programs: compiles the module's file with the headers of modules/bpf/
 * in place of the kernel's. See tools/BPF.md.
 */
#define SATCC_OWNER	0x68666c00	/* hfl */
#include "tcp_hybla_full.c"
#include "programs.h"

static void hybla_start(struct sock *sk)
{
	/* hybla_has_options() reads this bit at the offset of the kernel it was built for. */
	SATCC_EXPECT_BIT(tcp_sk(sk)->rx_opt.tstamp_ok, 1);
	hybla_init(sk);
}

SEC("struct_ops/pkts_acked")
void BPF_PROG(hybla_ops_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	hybla_pkts_acked(sk, sample);
}

SATCC_RENO_PROGRAMS(hybla_full, hybla, hybla_start,
		    .pkts_acked = (void *)hybla_ops_pkts_acked);
