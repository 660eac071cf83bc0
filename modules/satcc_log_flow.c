// SPDX-License-Identifier: GPL-2.0
/* The logger's table of sockets, with the last window of each. It is allocated before there
 * are hooks, because hooks may not allocate, sleep, or enable bottom halves: they run with
 * preemption off, on PREEMPT_RT too, and within kprobes, where the hooks of a softirq would
 * be missed.
 *
 * A flow is in the table from its socket's first record until the socket is destroyed. The
 * socket's lock protects its content; the lock of its bucket protects its place in the list.
 * A socket that finds the table full has no records; each of its hooks counts as lost.
 */
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/rculist.h>
#include <linux/spinlock.h>

#include "param.h"
#include "satcc_log.h"

#define SATCC_LOG_FLOWS_MIN	16
#define SATCC_LOG_FLOWS_MAX	1048576

struct satcc_log_bucket {
	raw_spinlock_t		lock;
	struct hlist_head	flows;
};

struct satcc_log_table {
	raw_spinlock_t		lock;		/* protects the list free */
	struct hlist_head	free;
	struct satcc_log_flow	*flows;
	struct satcc_log_bucket	*buckets;
	unsigned int		bits;
};

/* Allocated while cwnd_changed is on. */
static struct satcc_log_table __rcu *satcc_log_table;

static atomic_long_t satcc_log_no_room;

SATCC_PARAM(flows, 4096, SATCC_LOG_FLOWS_MIN, SATCC_LOG_FLOWS_MAX);
MODULE_PARM_DESC(flows, "sockets that cwnd_changed can follow at once, 16 to 1048576, from when it is next turned on (4096)");

/* Hooks on return run with preemption off, those on entry in a read-side section. */
static struct satcc_log_table *satcc_log_table_get(void)
{
	return rcu_dereference_check(satcc_log_table, rcu_read_lock_sched_held());
}

static struct satcc_log_bucket *satcc_log_bucket(struct satcc_log_table *table,
						 const struct sock *sk)
{
	return &table->buckets[hash_ptr(sk, table->bits)];
}

/* Returns the flow of a socket, NULL if it is not in the table. The caller holds the socket's
 * lock.
 */
struct satcc_log_flow *satcc_log_flow_find(const struct sock *sk)
{
	struct satcc_log_table *table = satcc_log_table_get();
	struct satcc_log_flow *flow;
	struct satcc_log_bucket *bucket;
	unsigned long irqs;

	if (!table)
		return NULL;

	bucket = satcc_log_bucket(table, sk);
	raw_spin_lock_irqsave(&bucket->lock, irqs);
	hlist_for_each_entry(flow, &bucket->flows, node)
		if (flow->sk == sk)
			break;
	raw_spin_unlock_irqrestore(&bucket->lock, irqs);

	return flow;
}

/* Add a flow for a socket that has none. Returns NULL if the table is full. */
struct satcc_log_flow *satcc_log_flow_add(const struct sock *sk)
{
	struct satcc_log_table *table = satcc_log_table_get();
	struct satcc_log_flow *flow = NULL;
	struct satcc_log_bucket *bucket;
	unsigned long irqs;

	if (!table)
		return NULL;

	raw_spin_lock_irqsave(&table->lock, irqs);
	if (!hlist_empty(&table->free)) {
		flow = hlist_entry(table->free.first, struct satcc_log_flow, node);
		hlist_del(&flow->node);
	}
	raw_spin_unlock_irqrestore(&table->lock, irqs);
	if (!flow) {
		atomic_long_inc(&satcc_log_no_room);
		return NULL;
	}

	flow->sk = sk;
	bucket = satcc_log_bucket(table, sk);
	raw_spin_lock_irqsave(&bucket->lock, irqs);
	hlist_add_head(&flow->node, &bucket->flows);
	raw_spin_unlock_irqrestore(&bucket->lock, irqs);

	return flow;
}

/* Remove a flow from the table. The caller holds the socket's lock. */
void satcc_log_flow_remove(struct satcc_log_flow *flow)
{
	struct satcc_log_table *table = satcc_log_table_get();
	struct satcc_log_bucket *bucket;
	unsigned long irqs;

	if (!table)
		return;		/* the whole table is being freed */

	bucket = satcc_log_bucket(table, flow->sk);
	raw_spin_lock_irqsave(&bucket->lock, irqs);
	hlist_del(&flow->node);
	raw_spin_unlock_irqrestore(&bucket->lock, irqs);

	raw_spin_lock_irqsave(&table->lock, irqs);
	hlist_add_head(&flow->node, &table->free);
	raw_spin_unlock_irqrestore(&table->lock, irqs);
}

static void satcc_log_table_free(struct satcc_log_table *table)
{
	kvfree(table->buckets);
	kvfree(table->flows);
	kfree(table);
}

/* Allocate an empty table. Only called while there is none. */
int satcc_log_flows_alloc(void)
{
	unsigned int i, flows = satcc_param(flows);
	struct satcc_log_table *table;

	table = kzalloc(sizeof(*table), GFP_KERNEL);
	if (!table)
		return -ENOMEM;

	raw_spin_lock_init(&table->lock);
	table->bits = order_base_2(flows);
	table->flows = kvcalloc(flows, sizeof(*table->flows), GFP_KERNEL);
	table->buckets = kvcalloc(1UL << table->bits, sizeof(*table->buckets), GFP_KERNEL);
	if (!table->flows || !table->buckets) {
		satcc_log_table_free(table);
		return -ENOMEM;
	}
	for (i = 0; i < flows; i++)
		hlist_add_head(&table->flows[i].node, &table->free);
	for (i = 0; i < 1U << table->bits; i++)
		raw_spin_lock_init(&table->buckets[i].lock);
	rcu_assign_pointer(satcc_log_table, table);

	return 0;
}

/* Hooks that other events need stay and may be using the table, so wait for them. */
void satcc_log_flows_free(void)
{
	struct satcc_log_table *table = rcu_dereference_protected(satcc_log_table, true);

	RCU_INIT_POINTER(satcc_log_table, NULL);
	synchronize_rcu();
	satcc_log_table_free(table);
}

/* Returns the number of hooks that ran for sockets without room in the table. */
unsigned long satcc_log_flows_lost(void)
{
	return atomic_long_read(&satcc_log_no_room);
}
