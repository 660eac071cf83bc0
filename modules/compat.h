/* SPDX-License-Identifier: GPL-2.0 */
/* All differences between the kernels we build for are in this file.
 *
 * Kbuild sets a SATCC_HAVE_ flag when it finds the feature in the headers it compiles
 * against. Stable and vendor kernels backport, so a version number is not enough.
 * Kbuild also sets SATCC_KERNEL, which is 5010 for 5.10.
 */
#ifndef _SATCC_COMPAT_H
#define _SATCC_COMPAT_H

#include <linux/moduleparam.h>
#include <net/tcp.h>

#if SATCC_KERNEL < 5010
#error "satcc needs Linux 5.10 or later"
#endif

/* In 5.19: 40570375356c ("tcp: add accessors to read/set tp->snd_cwnd"). Remove this
 * with the support of 5.10 and 5.15.
 */
#ifndef SATCC_HAVE_SND_CWND
static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}

static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 val)
{
	WARN_ON_ONCE((int)val <= 0);
	tp->snd_cwnd = val;
}
#endif

/* In 5.14: 2a14c9ae15a3 ("params: lift param_set_uint_minmax to common code"). Remove
 * this with the support of 5.10.
 */
#ifndef SATCC_HAVE_PARAM_MINMAX
static inline int param_set_uint_minmax(const char *val,
					const struct kernel_param *kp,
					unsigned int min, unsigned int max)
{
	unsigned int value;
	int err;

	err = kstrtouint(val, 0, &value);
	if (err)
		return err;
	if (value < min || value > max)
		return -EINVAL;
	WRITE_ONCE(*(unsigned int *)kp->arg, value);

	return 0;
}
#endif

/* Kernels with a BBRv3 patch replace ->min_tso_segs() by ->tso_segs(), which returns
 * the whole burst size instead of its lower bound. On these net.ipv4.tcp_min_tso_segs
 * stays the bound. Use this among the initializers of the ops, without a comma, and
 * declare fn __maybe_unused.
 */
#ifdef SATCC_HAVE_MIN_TSO_SEGS
#define SATCC_MIN_TSO_SEGS(fn)	.min_tso_segs = (fn),
#else
#define SATCC_MIN_TSO_SEGS(fn)
#endif

/* In 7.1: d1e59a469737, CA_EVENT_TX_START has its own member, ->cwnd_event_tx_start(),
 * and is no longer passed to ->cwnd_event(). Use this like SATCC_MIN_TSO_SEGS().
 */
#ifdef SATCC_HAVE_CWND_EVENT_TX_START
#define SATCC_TX_START(fn)	.cwnd_event_tx_start = (fn),
#else
#define SATCC_TX_START(fn)
#endif

/* In 6.10: 57bfc7605ca5 ("tcp: Add new args for cong_control in tcp_congestion_ops"):
 * void name(struct sock *sk, SATCC_ACK_FLAG const struct rate_sample *rs). We use neither
 * argument; the flags are private to the core.
 */
#ifdef SATCC_HAVE_CONG_CONTROL_FLAG
#define SATCC_ACK_FLAG	u32 ack, int flag,
#else
#define SATCC_ACK_FLAG
#endif

/* In 5.11: d19ad0775dcd ("ftrace: Have the callbacks receive a struct ftrace_regs
 * instead of pt_regs"). With FTRACE_OPS_FL_SAVE_REGS it has all registers.
 */
#if SATCC_KERNEL < 5011
#define satcc_ftrace_regs		struct pt_regs
#define satcc_ftrace_get_regs(fregs)	(fregs)
#else
#define satcc_ftrace_regs		struct ftrace_regs
#define satcc_ftrace_get_regs(fregs)	ftrace_get_regs(fregs)
#endif

/* In 5.11: d741bf41d7c7 ("kprobes: Remove kretprobe hash"). */
#if SATCC_KERNEL < 5011
#define satcc_kretprobe(ri)	((ri)->rp)
#else
#define satcc_kretprobe(ri)	get_kretprobe(ri)
#endif

/* In 6.10 (57bfc7605ca5 "tcp: Add new args for cong_control in tcp_congestion_ops"):
 * cong_control(sk, rs) has become cong_control(sk, ack, flag, rs). These are positions of
 * arguments. 0, the position of the socket, means that the argument does not exist.
 */
#ifdef SATCC_HAVE_CONG_CONTROL_FLAG
#define SATCC_CONG_CONTROL_FLAG	2
#define SATCC_CONG_CONTROL_RS	3
#else
#define SATCC_CONG_CONTROL_FLAG	0
#define SATCC_CONG_CONTROL_RS	1
#endif

#endif /* _SATCC_COMPAT_H */
