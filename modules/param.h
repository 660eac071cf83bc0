/* SPDX-License-Identifier: GPL-2.0 */
/* Module parameters that refuse what is out of bounds, at load and later.
 *
 *   SATCC_PARAM(rtt0_ms, 25, 1, 100000);
 *   ... satcc_param(rtt0_ms) ...	once per use: the next may differ
 */
#ifndef _SATCC_PARAM_H
#define _SATCC_PARAM_H

#include <linux/kernel.h>
#include <linux/moduleparam.h>

/* A parameter and its bounds. Flows read the value without a lock. */
struct satcc_param {
	unsigned int value;	/* first: param_get_uint() reads it through arg */
	unsigned int min;
	unsigned int max;
};

static int satcc_param_set(const char *val, const struct kernel_param *kp)
{
	struct satcc_param *param = kp->arg;
	unsigned int value;
	int err;

	err = kstrtouint(val, 0, &value);
	if (err)
		return err;
	if (value < param->min || value > param->max)
		return -ERANGE;
	WRITE_ONCE(param->value, value);

	return 0;
}

static const struct kernel_param_ops satcc_param_ops = {
	.set = satcc_param_set,
	.get = param_get_uint,
};

/* Define a parameter; MODULE_PARM_DESC() is to give unit, bounds and default. */
#define SATCC_PARAM(name, value, min, max)				\
	static struct satcc_param satcc_param_##name = { value, min, max }; \
	module_param_cb(name, &satcc_param_ops, &satcc_param_##name, 0644)

/* Its value now. */
#define satcc_param(name)	READ_ONCE(satcc_param_##name.value)

#endif /* _SATCC_PARAM_H */
