/* SPDX-License-Identifier: GPL-2.0 */
/* modules/param.h for BPF: a parameter is a variable in the map .data.param, and its bounds are
 * a tag of it in the object's BTF. The loader refuses what is out of bounds.
 */
#ifndef _SATCC_PARAM_H
#define _SATCC_PARAM_H

#include <linux/kernel.h>

#define SATCC_PARAM(name, value, min, max)				\
	unsigned int satcc_param_##name SEC(".data.param")		\
		__attribute__((btf_decl_tag("range " SATCC_TEXT(min) " " SATCC_TEXT(max)))) = value

#define SATCC_TEXT(value)	SATCC_TEXT_OF(value)
#define SATCC_TEXT_OF(value)	#value

/* Its value now. */
#define satcc_param(name)	READ_ONCE(satcc_param_##name)

#endif /* _SATCC_PARAM_H */
