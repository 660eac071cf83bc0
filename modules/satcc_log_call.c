// SPDX-License-Identifier: GPL-2.0
/* The logger's event cc_call: the arguments and results of a congestion control's callbacks.
 *
 *   modprobe satcc_log callbacks_of=cubic,hybla
 *   echo 1 > /sys/kernel/tracing/events/satcc/cc_call/enable
 *
 * The logger hooks entry and return of each callback in the tcp_congestion_ops of the named
 * congestion controls, so these need no change. It hooks a function that two of them share
 * once. It records a call if the function is this callback of the socket's own congestion
 * control, and that one is named. So it does not record a function that a callback calls as
 * a helper, or the calls of other congestion controls.
 *
 * A named congestion control stays loaded.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bpf.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "compat.h"
#include "satcc_log.h"

#define CREATE_TRACE_POINTS
#include "satcc_log_call_trace.h"

#define SATCC_CALL_NAMES	8	/* congestion controls at once */

/* Offsets of the callbacks in tcp_congestion_ops, by SATCC_CALL_. */
static const u16 satcc_call_members[] = {
	[SATCC_CALL_INIT] = offsetof(struct tcp_congestion_ops, init),
	[SATCC_CALL_RELEASE] = offsetof(struct tcp_congestion_ops, release),
	[SATCC_CALL_SSTHRESH] = offsetof(struct tcp_congestion_ops, ssthresh),
	[SATCC_CALL_CONG_AVOID] = offsetof(struct tcp_congestion_ops, cong_avoid),
	[SATCC_CALL_SET_STATE] = offsetof(struct tcp_congestion_ops, set_state),
	[SATCC_CALL_CWND_EVENT] = offsetof(struct tcp_congestion_ops, cwnd_event),
	[SATCC_CALL_IN_ACK_EVENT] = offsetof(struct tcp_congestion_ops, in_ack_event),
	[SATCC_CALL_PKTS_ACKED] = offsetof(struct tcp_congestion_ops, pkts_acked),
	[SATCC_CALL_UNDO_CWND] = offsetof(struct tcp_congestion_ops, undo_cwnd),
	[SATCC_CALL_CONG_CONTROL] = offsetof(struct tcp_congestion_ops, cong_control),
#ifdef SATCC_HAVE_CWND_EVENT_TX_START
	[SATCC_CALL_CWND_EVENT_TX_START] =
		offsetof(struct tcp_congestion_ops, cwnd_event_tx_start),
#endif
};

/* A hooked callback. */
struct satcc_call_hook {
	struct kretprobe	probe;
	void			*function;
	u8			call;		/* SATCC_CALL_ */
};

/* The named congestion controls. */
struct satcc_call_list {
	const struct tcp_congestion_ops	*ops[SATCC_CALL_NAMES];
	unsigned int			count;
	char				text[SATCC_CALL_NAMES * TCP_CA_NAME_MAX];
};

/* Changes only while there are no hooks. */
static struct satcc_call_list satcc_call_list;

static struct satcc_call_hook *satcc_call_hooks;
static struct kretprobe **satcc_call_probes;	/* the hooks' probes, for (un)registration */
static unsigned int satcc_call_count;
static bool satcc_call_on;

/* Calls missed by hooks that have been removed. */
static unsigned long satcc_call_missed;

/* Protects all of the above. Do not hold it while a module is loaded: loading waits for the
 * lock that the kernel holds when it turns an event on.
 */
static DEFINE_MUTEX(satcc_call_lock);

/* -- The hooks ---------------------------------------------------------------- */

static void *satcc_call_member(const struct tcp_congestion_ops *ops, u8 call)
{
	return *(void **)((char *)ops + satcc_call_members[call]);
}

static bool satcc_call_is_named(const struct tcp_congestion_ops *ops)
{
	unsigned int i;

	for (i = 0; i < satcc_call_list.count; i++)
		if (satcc_call_list.ops[i] == ops)
			return true;

	return false;
}

static void satcc_call_look(const struct sock *sk, struct satcc_call_state *state)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	state->pacing_rate = sk->sk_pacing_rate == ~0UL ? U64_MAX : sk->sk_pacing_rate;
	state->cwnd = tcp_snd_cwnd(tp);
	state->ssthresh = tp->snd_ssthresh;
	state->in_flight = tcp_packets_in_flight(tp);
	state->delivered = tp->delivered;
	state->cwnd_cnt = tp->snd_cwnd_cnt;
	state->prr_delivered = tp->prr_delivered;
	state->ca_state = inet_csk(sk)->icsk_ca_state;
	state->pacing_status = sk->sk_pacing_status;
	memcpy(state->priv, inet_csk_ca(sk), SATCC_CALL_PRIV);
}

static s32 satcc_call_clip(long value)
{
	return clamp_t(long, value, S32_MIN, S32_MAX);
}

static void satcc_call_rate(struct satcc_call *call, const struct rate_sample *rs)
{
	call->rtt_us = satcc_call_clip(rs->rtt_us);
	call->rs = (struct satcc_call_rate){
		.delivered = rs->delivered,
		.interval_us = satcc_call_clip(rs->interval_us),
		.losses = rs->losses,
		.acked_sacked = rs->acked_sacked,
		.prior_in_flight = rs->prior_in_flight,
		.prior_delivered = rs->prior_delivered,
		.prior_mstamp_lo = rs->prior_mstamp,
		.is_app_limited = rs->is_app_limited,
		.is_retrans = rs->is_retrans,
	};
}

/* Read the arguments after the socket. */
static void satcc_call_arguments(struct satcc_call *call, struct pt_regs *regs)
{
	const struct ack_sample *sample;

	call->ack = 0;
	call->arg = 0;
	call->rtt_us = 0;
	call->rs = (struct satcc_call_rate){};
	switch (call->call) {
	case SATCC_CALL_CONG_AVOID:
		call->ack = regs_get_kernel_argument(regs, 1);
		call->arg = regs_get_kernel_argument(regs, 2);
		break;
	case SATCC_CALL_SET_STATE:
		call->arg = (u8)regs_get_kernel_argument(regs, 1);
		break;
	case SATCC_CALL_CWND_EVENT:
	case SATCC_CALL_IN_ACK_EVENT:
		call->arg = regs_get_kernel_argument(regs, 1);
		break;
	case SATCC_CALL_PKTS_ACKED:
		sample = (void *)regs_get_kernel_argument(regs, 1);
		call->arg = sample->pkts_acked;
		call->rtt_us = sample->rtt_us;
		break;
	case SATCC_CALL_CONG_CONTROL:
		if (SATCC_CONG_CONTROL_FLAG)
			call->arg = regs_get_kernel_argument(regs, SATCC_CONG_CONTROL_FLAG);
		satcc_call_rate(call, (void *)regs_get_kernel_argument(regs,
								       SATCC_CONG_CONTROL_RS));
		break;
	}
}

static int satcc_call_enter(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct sock *sk = (void *)regs_get_kernel_argument(regs, 0);
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;
	const struct tcp_sock *tp = tcp_sk(sk);
	struct kretprobe *probe = satcc_kretprobe(ri);
	struct satcc_call *call = (void *)ri->data;
	const struct satcc_call_hook *hook;

	if (!probe)
		return 1;	/* the hook is being removed */
	hook = container_of(probe, struct satcc_call_hook, probe);
	if (satcc_call_member(ops, hook->call) != hook->function || !satcc_call_is_named(ops))
		return 1;

	call->sk = sk;
	call->call = hook->call;
	satcc_call_arguments(call, regs);
	satcc_call_look(sk, &call->old);
	call->mstamp_us = tp->tcp_mstamp;
	call->bytes_sent = tp->bytes_sent;
	call->clamp = tp->snd_cwnd_clamp;
	call->prior_cwnd = tp->prior_cwnd;
	call->prior_ssthresh = tp->prior_ssthresh;
	call->undo_marker = tp->undo_marker;
	call->undo_retrans = tp->undo_retrans;
	call->high_seq = tp->high_seq;
	call->srtt_us8 = tp->srtt_us;
	call->min_rtt_us = tcp_min_rtt(tp);
	call->lost = tp->lost;
	call->app_limited = tp->app_limited;
	call->rate_delivered = tp->rate_delivered;
	call->rate_interval_us = tp->rate_interval_us;
	call->snd_una = tp->snd_una;
	call->snd_nxt = tp->snd_nxt;
	call->packets_out = tp->packets_out;
	call->max_packets_out = tp->max_packets_out;
	call->cwnd_used = tp->snd_cwnd_used;
	call->sacked_out = tp->sacked_out;
	call->lost_out = tp->lost_out;
	call->retrans_out = tp->retrans_out;
	call->prr_out = tp->prr_out;
	call->mss = tp->mss_cache;
	call->total_retrans = tp->total_retrans;
	call->snd_wnd = tp->snd_wnd;
	call->cwnd_limited = tcp_is_cwnd_limited(sk);
	call->is_cwnd_limited = tp->is_cwnd_limited;
	call->sack_ok = tcp_is_sack(tp);
	call->tstamp_ok = tp->rx_opt.tstamp_ok;
	call->tcp_state = sk->sk_state;
	call->ecn_flags = tp->ecn_flags;
	call->rate_app_limited = tp->rate_app_limited;

	return 0;
}

static int satcc_call_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct satcc_call *call = (void *)ri->data;
	struct satcc_call_state now;
	u32 ret = 0;

	if (call->call == SATCC_CALL_SSTHRESH || call->call == SATCC_CALL_UNDO_CWND)
		ret = regs_return_value(regs);
	satcc_call_look(call->sk, &now);
	trace_cc_call(call->sk, call, &now, ret);

	return 0;
}

/* -- On and off --------------------------------------------------------------- */

/* Prepare a hook for this callback unless there is one. */
static void satcc_call_add(const struct tcp_congestion_ops *ops, u8 call)
{
	void *function = satcc_call_member(ops, call);
	struct satcc_call_hook *hook;
	unsigned int i;

	if (!function)
		return;
	for (i = 0; i < satcc_call_count; i++)
		if (satcc_call_hooks[i].function == function && satcc_call_hooks[i].call == call)
			return;

	hook = &satcc_call_hooks[satcc_call_count];
	hook->function = function;
	hook->call = call;
	hook->probe.kp.addr = function;
	hook->probe.entry_handler = satcc_call_enter;
	hook->probe.handler = satcc_call_return;
	hook->probe.data_size = sizeof(struct satcc_call);
	hook->probe.maxactive = satcc_log_max_active();
	satcc_call_probes[satcc_call_count++] = &hook->probe;
}

static unsigned long satcc_call_sum_missed(void)
{
	unsigned long missed = 0;
	unsigned int i;

	for (i = 0; i < satcc_call_count; i++)
		missed += READ_ONCE(satcc_call_probes[i]->nmissed) +
			  READ_ONCE(satcc_call_probes[i]->kp.nmissed);

	return missed;
}

static void satcc_call_free(void)
{
	satcc_call_count = 0;
	kvfree(satcc_call_hooks);
	satcc_call_hooks = NULL;
	kvfree(satcc_call_probes);
	satcc_call_probes = NULL;
}

static int satcc_call_attach(void)
{
	size_t room = satcc_call_list.count * ARRAY_SIZE(satcc_call_members);
	unsigned int i, call;
	int err;

	if (!room)
		return 0;

	satcc_call_hooks = kvcalloc(room, sizeof(*satcc_call_hooks), GFP_KERNEL);
	satcc_call_probes = kvcalloc(room, sizeof(*satcc_call_probes), GFP_KERNEL);
	err = -ENOMEM;
	if (!satcc_call_hooks || !satcc_call_probes)
		goto fail;

	for (i = 0; i < satcc_call_list.count; i++)
		for (call = 1; call < ARRAY_SIZE(satcc_call_members); call++)
			satcc_call_add(satcc_call_list.ops[i], call);

	/* Register one by one, which takes no longer than register_kretprobes() and shows
	 * which one failed. Unregister all at once, to wait only once.
	 */
	for (i = 0; i < satcc_call_count; i++) {
		err = register_kretprobe(satcc_call_probes[i]);
		if (err) {
			pr_err("cannot hook %ps: %d; the event cc_call stays off\n",
			       satcc_call_hooks[i].function, err);
			goto fail_hook;
		}
	}

	return 0;

fail_hook:
	if (i)
		unregister_kretprobes(satcc_call_probes, i);
fail:
	satcc_call_free();

	return err;
}

int satcc_log_call_reg(void)
{
	int err = 0;

	mutex_lock(&satcc_call_lock);
	if (!satcc_call_on) {	/* 6.1 may call this again after a later failure */
		err = satcc_call_attach();
		satcc_call_on = !err;
	}
	mutex_unlock(&satcc_call_lock);

	return err;
}

void satcc_log_call_unreg(void)
{
	mutex_lock(&satcc_call_lock);
	satcc_call_on = false;
	if (satcc_call_count) {
		unregister_kretprobes(satcc_call_probes, satcc_call_count);
		satcc_call_missed += satcc_call_sum_missed();
		satcc_call_free();
	}
	mutex_unlock(&satcc_call_lock);
}

unsigned long satcc_log_call_lost(void)
{
	unsigned long lost;

	mutex_lock(&satcc_call_lock);
	lost = satcc_call_missed + satcc_call_sum_missed();
	mutex_unlock(&satcc_call_lock);

	return lost;
}

/* -- The parameter ------------------------------------------------------------ */

/* Returns a congestion control, and takes a reference to its module. The kernel does not
 * export its table of congestion controls, but a socket has a pointer to its own. Setting it
 * on a socket also loads the module.
 */
static const struct tcp_congestion_ops *satcc_call_find(const char *name)
{
	const struct tcp_congestion_ops *ops;
	struct socket *sock;
	int err;

	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return ERR_PTR(err);
	err = sock->ops->setsockopt(sock, SOL_TCP, TCP_CONGESTION,
				    KERNEL_SOCKPTR((char *)name), strlen(name));
	ops = inet_csk(sock->sk)->icsk_ca_ops;
	if (err) {
		pr_err("no congestion control %s: %d\n", name, err);
#ifdef BPF_MODULE_OWNER
	} else if (ops->owner == BPF_MODULE_OWNER) {
		pr_err("%s is a BPF program, whose callbacks cannot be hooked\n", name);
		err = -EOPNOTSUPP;
#endif
	} else if (!try_module_get(ops->owner)) {
		pr_err("%s is being unloaded\n", name);
		err = -ENOENT;
	}
	sock_release(sock);

	return err ? ERR_PTR(err) : ops;
}

static void satcc_call_let_go(struct satcc_call_list *list)
{
	while (list->count)
		module_put(list->ops[--list->count]->owner);
}

static int satcc_call_find_all(struct satcc_call_list *list)
{
	char text[sizeof(list->text)], *rest = text, *name;
	const struct tcp_congestion_ops *ops;
	int err;

	strscpy(text, list->text, sizeof(text));
	while ((name = strsep(&rest, ", "))) {
		if (!*name)
			continue;
		err = -E2BIG;
		if (list->count == ARRAY_SIZE(list->ops)) {
			pr_err("callbacks_of takes %u names\n", SATCC_CALL_NAMES);
			goto fail;
		}
		ops = satcc_call_find(name);
		err = PTR_ERR_OR_ZERO(ops);
		if (err)
			goto fail;
		list->ops[list->count++] = ops;
	}

	return 0;

fail:
	satcc_call_let_go(list);

	return err;
}

/* Only while this is set does the parameter's setter look up the names. Protected by the
 * kernel's lock of this module's parameters.
 */
static bool satcc_call_is_loaded;

static int satcc_call_set(const char *val, const struct kernel_param *kp)
{
	struct satcc_call_list *list;
	int err;

	list = kzalloc(sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;

	err = -E2BIG;
	if (strscpy(list->text, val, sizeof(list->text)) < 0)
		goto out;
	strim(list->text);
	err = satcc_call_is_loaded ? satcc_call_find_all(list) : 0;
	if (err)
		goto out;

	mutex_lock(&satcc_call_lock);
	if (satcc_call_on && satcc_call_is_loaded)
		err = -EBUSY;
	else
		swap(satcc_call_list, *list);
	mutex_unlock(&satcc_call_lock);
	if (err)
		pr_err("callbacks_of cannot be changed while the event cc_call is on\n");
	satcc_call_let_go(list);
out:
	kfree(list);

	return err;
}

static int satcc_call_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", satcc_call_list.text);
}

static const struct kernel_param_ops satcc_call_ops = {
	.set = satcc_call_set,
	.get = satcc_call_get,
};

module_param_cb(callbacks_of, &satcc_call_ops, NULL, 0644);
MODULE_PARM_DESC(callbacks_of, "congestion controls whose calls the event cc_call records, 8 at most; commas between");

/* Look up the names given at load. The event may be on already, because its file exists
 * before this; then install its hooks.
 */
int __init satcc_log_call_init(void)
{
	struct satcc_call_list *list;
	int err;

	BUILD_BUG_ON(SATCC_CALL_PRIV != ICSK_CA_PRIV_SIZE);
	list = kzalloc(sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;

	kernel_param_lock(THIS_MODULE);
	strscpy(list->text, satcc_call_list.text, sizeof(list->text));
	err = satcc_call_find_all(list);
	if (err)
		goto out;

	mutex_lock(&satcc_call_lock);
	swap(satcc_call_list, *list);
	if (satcc_call_on)
		err = satcc_call_attach();
	if (err)
		satcc_call_let_go(&satcc_call_list);
	mutex_unlock(&satcc_call_lock);
	satcc_call_is_loaded = !err;
out:
	kernel_param_unlock(THIS_MODULE);
	kfree(list);

	return err;
}

/* Hooks may stay until the kernel turns the event off; after this they find no name. The
 * parameter can be written until the module is freed, and then must not take references.
 */
void satcc_log_call_exit(void)
{
	kernel_param_lock(THIS_MODULE);
	satcc_call_is_loaded = false;
	kernel_param_unlock(THIS_MODULE);
	satcc_call_let_go(&satcc_call_list);
}
