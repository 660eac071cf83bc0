/* SPDX-License-Identifier: GPL-2.0 */
/* Module parameters that refuse what is out of bounds, at load and later.
 *
 *   SATCC_PARAM(rtt0_ms, 25, 1, 100000);
 *   ... satcc_param(rtt0_ms) ...	once per use: the next may differ
 */
#ifndef _SATCC_PARAM_H
#define _SATCC_PARAM_H

#include <linux/moduleparam.h>

#include "compat.h"

/* Define a parameter; MODULE_PARM_DESC() is to give unit, bounds and default. Flows
 * read the value without a lock.
 */
#define SATCC_PARAM(name, value, min, max)				\
	static unsigned int satcc_param_##name __read_mostly = value;	\
	static int satcc_param_set_##name(const char *val,		\
					  const struct kernel_param *kp) \
	{								\
		return param_set_uint_minmax(val, kp, min, max);	\
	}								\
	static const struct kernel_param_ops satcc_param_ops_##name = {	\
		.set = satcc_param_set_##name,				\
		.get = param_get_uint,					\
	};								\
	module_param_cb(name, &satcc_param_ops_##name,			\
			&satcc_param_##name, 0644)

/* Its value now. */
#define satcc_param(name)	READ_ONCE(satcc_param_##name)

#endif /* _SATCC_PARAM_H */
