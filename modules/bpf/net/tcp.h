/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's net/tcp.h for BPF, as far as the policies need it. */
#ifndef _SATCC_BPF_TCP_H
#define _SATCC_BPF_TCP_H

#include <net/sock.h>

#define TCP_INFINITE_SSTHRESH	0x7fffffff
#define TCP_INIT_CWND		10
#define ICSK_CA_PRIV_SIZE	104

/* Only the members with which a policy registers. The loader finds each by its name in the
 * running kernel's struct, which may have others.
 */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	size_t (*get_info)(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);
	void (*init)(struct sock *sk);
	char name[16];
	struct module *owner;
};

/* The loader registers a policy's programs. */
#define tcp_register_congestion_control(ops)	0
#define tcp_unregister_congestion_control(ops)

extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;

/* The verifier accepts a program's socket as a struct tcp_sock. */
#define tcp_sk(sk)	((struct tcp_sock *)(sk))
#define inet_csk_ca(sk)	((void *)((struct inet_connection_sock *)(sk))->icsk_ca_priv)

/* The members that policies read, with bitfields from their place in the running kernel. */
struct satcc_csk {
	u32	icsk_rto;
	u8	icsk_ca_state;
};

#define inet_csk(sk) (&(const struct satcc_csk){			\
	.icsk_rto = ((struct inet_connection_sock *)(sk))->icsk_rto,	\
	.icsk_ca_state = BPF_CORE_READ_BITFIELD(			\
		(struct inet_connection_sock *)(sk), icsk_ca_state),	\
})

/* Makes the verifier refuse a kernel whose bitfield does not end before this bit of its word:
 * then the program calls a helper that does not exist. Otherwise the call is dead code.
 */
#define SATCC_EXPECT_BIT(field, bit) do {				\
	if (__builtin_preserve_field_info(field, BPF_FIELD_LSHIFT_U64) != 63 - (bit)) \
		((void (*)(void))0x5a7cc)();				\
} while (0)

#define tcp_jiffies32	((u32)bpf_jiffies64())

extern int CONFIG_HZ __kconfig;

#define jiffies_to_msecs(ticks)	((u32)((u64)(ticks) * 1000 / (u32)CONFIG_HZ))

#define before(seq1, seq2)	((s32)((u32)(seq1) - (u32)(seq2)) < 0)
#define after(seq2, seq1)	before(seq1, seq2)

static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}

static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 val)
{
	tp->snd_cwnd = val;
}

static inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tcp_snd_cwnd(tp) < tp->snd_ssthresh;
}

static inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	if (tcp_in_slow_start(tp))
		return tcp_snd_cwnd(tp) < 2 * tp->max_packets_out;

	return false;
}

static inline bool tcp_in_cwnd_reduction(const struct sock *sk)
{
	return BIT(inet_csk(sk)->icsk_ca_state) & (BIT(TCP_CA_CWR) | BIT(TCP_CA_Recovery));
}

static inline u32 tcp_current_ssthresh(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_cwnd_reduction(sk))
		return tp->snd_ssthresh;

	return max(tp->snd_ssthresh, (tcp_snd_cwnd(tp) >> 1) + (tcp_snd_cwnd(tp) >> 2));
}

static inline bool tcp_is_sack(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, rx_opt.sack_ok);
}

static inline u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static inline u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}

#endif /* _SATCC_BPF_TCP_H */
