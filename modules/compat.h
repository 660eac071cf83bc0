/* SPDX-License-Identifier: GPL-2.0 */
/* The kernels we build for differ here, and nowhere else.
 *
 * The SATCC_HAVE_ flags come from Kbuild, which looks for the thing itself in
 * the headers it compiles against: stable and vendor kernels backport, so a
 * version says little. SATCC_KERNEL, from there too, is 5010 for 5.10.
 */
#ifndef _SATCC_COMPAT_H
#define _SATCC_COMPAT_H

#include <net/tcp.h>

#if SATCC_KERNEL < 5010
#error "satcc needs Linux 5.10 or later"
#endif

/* In 5.19: 40570375356c ("tcp: add accessors to read/set tp->snd_cwnd"). Goes
 * with 5.10 and 5.15.
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

/* Kernels with BBRv3 patched in replace ->min_tso_segs() by ->tso_segs(), which
 * returns the whole burst size instead of its lower bound. There the bound stays
 * what net.ipv4.tcp_min_tso_segs says. To be called before registration.
 */
static inline void satcc_set_min_tso_segs(struct tcp_congestion_ops *ops,
					  u32 (*min_tso_segs)(struct sock *sk))
{
#ifdef SATCC_HAVE_MIN_TSO_SEGS
	ops->min_tso_segs = min_tso_segs;
#endif
}

/* In 5.11: d19ad0775dcd ("ftrace: Have the callbacks receive a struct ftrace_regs
 * instead of pt_regs"). With FTRACE_OPS_FL_SAVE_REGS the registers are all there.
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

#endif /* _SATCC_COMPAT_H */
