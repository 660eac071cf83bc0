// SPDX-License-Identifier: GPL-2.0
/* For bench/matrix/twice.py: the congestion control "twice". Each callback runs twice on the
 * same socket, in a policy's BPF object and in its module, and the results are compared.
 * Those of the module remain, so the flow is the module's, later by the object's time.
 *
 *   modprobe tcp_ibk; insmod satcc_twice.ko
 *   echo ibk > /sys/module/satcc_twice/parameters/module	frees the name for the object
 *   satcc-bpf load ibk.bpf.o
 *   echo ibk > /sys/module/satcc_twice/parameters/object	registers "twice"
 *   cat /sys/module/satcc_twice/parameters/results		after the flow
 *
 * With delay=N the object does not run, and each callback of the module takes N hundred
 * instructions longer.
 *
 * It serves one flow, on one processor. A socket's BPF storage remains between the calls, as
 * it does without this module. tcp_ibk must stay loaded, because its name is free already.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/net.h>
#include <net/tcp.h>

#include "compat.h"

static unsigned int delay;
module_param(delay, uint, 0444);
MODULE_PARM_DESC(delay, "call the module alone, so many hundreds of instructions later");

static const struct tcp_congestion_ops *module, *object;
static struct tcp_congestion_ops twice;

#define TWICE_WORDS	(ICSK_CA_PRIV_SIZE / 4)

/* What the policies may write, and what a callback returns. */
struct twice_state {
	unsigned long pacing_rate;
	u32 pacing_status;
	u32 cwnd;
	u32 cwnd_cnt;
	u32 ssthresh;
	u32 ret;
	u32 priv[TWICE_WORDS];
};

/* Members that the kernel does not let BPF write; see modules/bpf/core_state.h. */
struct twice_core {
	u32 prr_delivered;
	u32 cwnd_used;
	u32 cwnd_stamp;
};

enum twice_call {
	INIT, SSTHRESH, CONG_AVOID, SET_STATE, CWND_EVENT, TX_START, IN_ACK_EVENT, PKTS_ACKED,
	MIN_TSO_SEGS, CONG_CONTROL, UNDO, SNDBUF_EXPAND, CALLS
};

static const char * const names[CALLS] = {
	"init", "ssthresh", "cong_avoid", "set_state", "cwnd_event", "cwnd_event_tx_start",
	"in_ack_event", "pkts_acked", "min_tso_segs", "cong_control", "undo_cwnd",
	"sndbuf_expand"
};

/* The flow: its private bytes as the object has them, and the word in them that names the
 * policy, which is another one in the module.
 */
static struct {
	const struct sock *sk;
	u32 priv[TWICE_WORDS];
	u32 calls[CALLS];
	u32 differing;
	u32 strangers;		/* calls of other flows */
	u64 module_ns;
	u64 object_ns;
	char first[160];	/* the first difference */
} flow;

static struct twice_state at_start, of_object, of_module;
static struct twice_core core;

static void twice_read(struct sock *sk, struct twice_state *state)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	state->pacing_rate = READ_ONCE(sk->sk_pacing_rate);
	state->pacing_status = READ_ONCE(sk->sk_pacing_status);
	state->cwnd = tcp_snd_cwnd(tp);
	state->cwnd_cnt = tp->snd_cwnd_cnt;
	state->ssthresh = tp->snd_ssthresh;
	memcpy(state->priv, inet_csk_ca(sk), sizeof(state->priv));
}

static void twice_write(struct sock *sk, const struct twice_state *state)
{
	struct tcp_sock *tp = tcp_sk(sk);

	WRITE_ONCE(sk->sk_pacing_rate, state->pacing_rate);
	WRITE_ONCE(sk->sk_pacing_status, state->pacing_status);
	tcp_snd_cwnd_set(tp, state->cwnd);
	tp->snd_cwnd_cnt = state->cwnd_cnt;
	tp->snd_ssthresh = state->ssthresh;
	tp->prr_delivered = core.prr_delivered;
	tp->snd_cwnd_used = core.cwnd_used;
	tp->snd_cwnd_stamp = core.cwnd_stamp;
	memcpy(inet_csk_ca(sk), state->priv, sizeof(state->priv));
}

static void twice_begin(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	twice_read(sk, &at_start);
	core.prr_delivered = tp->prr_delivered;
	core.cwnd_used = tp->snd_cwnd_used;
	core.cwnd_stamp = tp->snd_cwnd_stamp;
}

static void twice_differs(enum twice_call call, const char *what, u64 by_module, u64 by_object)
{
	if (!flow.differing++)
		snprintf(flow.first, sizeof(flow.first),
			 "%s, call %u: %s is %llu in the module, %llu in the object",
			 names[call], flow.calls[call], what, by_module, by_object);
}

/* The word that names the policy differs, and changes only when the policy takes the socket. */
static void twice_compare(const struct sock *sk, enum twice_call call)
{
	u32 owner = lower_32_bits((uintptr_t)sk ^ (uintptr_t)module) | 1;
	char what[16];
	int word;

	for (word = 0; word < ARRAY_SIZE(of_module.priv); word++) {
		u32 one = of_module.priv[word], two = of_object.priv[word];

		if (one == two || (one == owner && two & 1 &&
				   (two == flow.priv[word] || at_start.priv[word] != owner)))
			continue;
		snprintf(what, sizeof(what), "priv[%d]", word);
		twice_differs(call, what, one, two);
		of_object.priv[word] = one;
	}
	if (of_module.ret != of_object.ret)
		twice_differs(call, "the result", of_module.ret, of_object.ret);
	if (of_module.cwnd != of_object.cwnd)
		twice_differs(call, "cwnd", of_module.cwnd, of_object.cwnd);
	if (of_module.cwnd_cnt != of_object.cwnd_cnt)
		twice_differs(call, "cwnd_cnt", of_module.cwnd_cnt, of_object.cwnd_cnt);
	if (of_module.ssthresh != of_object.ssthresh)
		twice_differs(call, "ssthresh", of_module.ssthresh, of_object.ssthresh);
	if (of_module.pacing_rate != of_object.pacing_rate)
		twice_differs(call, "pacing_rate", of_module.pacing_rate, of_object.pacing_rate);
	if (of_module.pacing_status != of_object.pacing_status)
		twice_differs(call, "pacing_status", of_module.pacing_status,
			      of_object.pacing_status);
	memcpy(flow.priv, of_object.priv, sizeof(flow.priv));
}

static void twice_wait(void)
{
	unsigned int left;

	for (left = delay; left; left--)
		asm volatile(".rept 98\n\tnop\n\t.endr");
}

/* A callback and its arguments. */
struct twice_args {
	enum twice_call call;
	u32 ack;
	u32 number;		/* acked, the state, the event or the flags */
	int flag;
	const void *sample;
};

/* Calls a policy's callback and returns its result. Without the callback nothing happens. */
static u32 twice_call_one(const struct tcp_congestion_ops *ops, struct sock *sk,
			  const struct twice_args *args)
{
	switch (args->call) {
	case INIT:
		if (ops->init)
			ops->init(sk);
		break;
	case SSTHRESH:
		return ops->ssthresh(sk);
	case CONG_AVOID:
		if (ops->cong_avoid)
			ops->cong_avoid(sk, args->ack, args->number);
		break;
	case SET_STATE:
		if (ops->set_state)
			ops->set_state(sk, args->number);
		break;
	case CWND_EVENT:
		if (ops->cwnd_event)
			ops->cwnd_event(sk, args->number);
		break;
	case TX_START:
#ifdef SATCC_HAVE_CWND_EVENT_TX_START
		if (ops->cwnd_event_tx_start)
			ops->cwnd_event_tx_start(sk);
#endif
		break;
	case IN_ACK_EVENT:
		if (ops->in_ack_event)
			ops->in_ack_event(sk, args->number);
		break;
	case PKTS_ACKED:
		if (ops->pkts_acked)
			ops->pkts_acked(sk, args->sample);
		break;
	case MIN_TSO_SEGS:
		if (ops->min_tso_segs)
			return ops->min_tso_segs(sk);
		break;
	case CONG_CONTROL:
		if (!ops->cong_control)
			break;
#ifdef SATCC_HAVE_CONG_CONTROL_FLAG
		ops->cong_control(sk, args->ack, args->flag, args->sample);
#else
		ops->cong_control(sk, args->sample);
#endif
		break;
	case UNDO:
		return ops->undo_cwnd(sk);
	case SNDBUF_EXPAND:
		if (ops->sndbuf_expand)
			return ops->sndbuf_expand(sk);
		break;
	default:
		break;
	}

	return 0;
}

/* Interrupts are off, so that the clock of jiffies does not tick in between: both have to read
 * the same. Calling both again after a tick would not do: the object's storage, which this
 * cannot restore, would have the segments of the first call too.
 */
static u32 twice_call_both(struct sock *sk, const struct twice_args *args)
{
	unsigned long irqs;
	u64 began;

	local_irq_save(irqs);
	twice_begin(sk);
	memcpy(inet_csk_ca(sk), flow.priv, sizeof(flow.priv));
	began = ktime_get_ns();
	of_object.ret = twice_call_one(object, sk, args);
	flow.object_ns += ktime_get_ns() - began;
	twice_read(sk, &of_object);

	twice_write(sk, &at_start);
	began = ktime_get_ns();
	of_module.ret = twice_call_one(module, sk, args);
	flow.module_ns += ktime_get_ns() - began;
	twice_read(sk, &of_module);
	twice_compare(sk, args->call);
	local_irq_restore(irqs);

	return of_module.ret;
}

static u32 twice_called(struct sock *sk, const struct twice_args *args)
{
	flow.calls[args->call]++;
	if (delay) {
		twice_wait();
		return twice_call_one(module, sk, args);
	}
	if (!flow.sk)
		flow.sk = sk;
	if (sk == flow.sk)
		return twice_call_both(sk, args);
	flow.strangers++;

	return twice_call_one(module, sk, args);
}

static void twice_init(struct sock *sk)
{
	twice_called(sk, &(struct twice_args){ .call = INIT });
}

static u32 twice_ssthresh(struct sock *sk)
{
	return twice_called(sk, &(struct twice_args){ .call = SSTHRESH });
}

static void twice_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	twice_called(sk, &(struct twice_args){ .call = CONG_AVOID, .ack = ack, .number = acked });
}

static void twice_set_state(struct sock *sk, u8 state)
{
	twice_called(sk, &(struct twice_args){ .call = SET_STATE, .number = state });
}

static void twice_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	twice_called(sk, &(struct twice_args){ .call = CWND_EVENT, .number = event });
}

static void __maybe_unused twice_tx_start(struct sock *sk)
{
	twice_called(sk, &(struct twice_args){ .call = TX_START });
}

static void twice_in_ack_event(struct sock *sk, u32 flags)
{
	twice_called(sk, &(struct twice_args){ .call = IN_ACK_EVENT, .number = flags });
}

static void twice_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	twice_called(sk, &(struct twice_args){ .call = PKTS_ACKED, .sample = sample });
}

static u32 twice_min_tso_segs(struct sock *sk)
{
	return twice_called(sk, &(struct twice_args){ .call = MIN_TSO_SEGS });
}

static void twice_cong_control(struct sock *sk, SATCC_ACK_FLAG const struct rate_sample *rs)
{
	struct twice_args args = { .call = CONG_CONTROL, .sample = rs };

#ifdef SATCC_HAVE_CONG_CONTROL_FLAG
	args.ack = ack;
	args.flag = flag;
#endif
	twice_called(sk, &args);
}

static u32 twice_undo_cwnd(struct sock *sk)
{
	return twice_called(sk, &(struct twice_args){ .call = UNDO });
}

static u32 twice_sndbuf_expand(struct sock *sk)
{
	return twice_called(sk, &(struct twice_args){ .call = SNDBUF_EXPAND });
}

/* The kernel tells nobody its table of congestion controls; a socket has its own. This one
 * stays, and with it the policy.
 */
static const struct tcp_congestion_ops *twice_ops(const char *val)
{
	char name[TCP_CA_NAME_MAX];
	struct socket *sock;
	int err;

	strscpy(name, val, sizeof(name));
	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return ERR_PTR(err);
	err = sock->ops->setsockopt(sock, SOL_TCP, TCP_CONGESTION,
				    KERNEL_SOCKPTR(strim(name)), strlen(strim(name)));
	if (err) {
		sock_release(sock);
		return ERR_PTR(err);
	}

	return inet_csk(sock->sk)->icsk_ca_ops;
}

static int module_set(const char *val, const struct kernel_param *kp)
{
	const struct tcp_congestion_ops *ops = twice_ops(val);

	if (IS_ERR(ops))
		return PTR_ERR(ops);
	module = ops;
	tcp_unregister_congestion_control((struct tcp_congestion_ops *)ops);

	return 0;
}

static int object_set(const char *val, const struct kernel_param *kp)
{
	const struct tcp_congestion_ops *ops = twice_ops(val);

	if (IS_ERR(ops))
		return PTR_ERR(ops);
	if (!module || ops == module)
		return -EINVAL;
	object = ops;
	twice.flags = module->flags;
	if (!module->cong_avoid)
		twice.cong_avoid = NULL;
	if (!module->in_ack_event)
		twice.in_ack_event = NULL;
	if (!module->pkts_acked)
		twice.pkts_acked = NULL;
	if (!module->cong_control)
		twice.cong_control = NULL;
	if (!module->sndbuf_expand)
		twice.sndbuf_expand = NULL;

	return tcp_register_congestion_control(&twice);
}

static int results_get(char *buffer, const struct kernel_param *kp)
{
	int call, len = 0;

	for (call = 0; call < CALLS; call++)
		len += sysfs_emit_at(buffer, len, "%s %u\n", names[call], flow.calls[call]);

	len += sysfs_emit_at(buffer, len, "differing %u\nstrangers %u\n", flow.differing,
			     flow.strangers);

	return len + sysfs_emit_at(buffer, len,
				   "module_ns %llu\nobject_ns %llu\nfirst %s\n",
				   flow.module_ns, flow.object_ns, flow.first);
}

static const struct kernel_param_ops module_ops = { .set = module_set };
static const struct kernel_param_ops object_ops = { .set = object_set };
static const struct kernel_param_ops results_ops = { .get = results_get };

module_param_cb(module, &module_ops, NULL, 0200);
MODULE_PARM_DESC(module, "write the name of a loaded module's policy");
module_param_cb(object, &object_ops, NULL, 0200);
MODULE_PARM_DESC(object, "write the name of the loaded object's policy");
module_param_cb(results, &results_ops, NULL, 0444);
MODULE_PARM_DESC(results, "calls of each callback, differences, time of module and object in ns");

static struct tcp_congestion_ops twice __read_mostly = {
	.init		= twice_init,
	.ssthresh	= twice_ssthresh,
	.cong_avoid	= twice_cong_avoid,
	.set_state	= twice_set_state,
	.cwnd_event	= twice_cwnd_event,
	SATCC_TX_START(twice_tx_start)
	.in_ack_event	= twice_in_ack_event,
	.pkts_acked	= twice_pkts_acked,
	.min_tso_segs	= twice_min_tso_segs,
	.cong_control	= twice_cong_control,
	.undo_cwnd	= twice_undo_cwnd,
	.sndbuf_expand	= twice_sndbuf_expand,
	.owner		= THIS_MODULE,
	.name		= "twice",
};

static int __init satcc_twice_init(void)
{
	return 0;
}

module_init(satcc_twice_init);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("Compares a policy's module with its BPF object at each callback");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
