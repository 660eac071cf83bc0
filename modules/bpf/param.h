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

/* A word's number; the words are in the tag. */
#define SATCC_PARAM_WORD(name, ...)					\
	unsigned int satcc_param_##name SEC(".data.param")		\
		__attribute__((btf_decl_tag("words " #__VA_ARGS__))) = 0

/* How many numbers there are, and they. */
#define SATCC_PARAM_LIST(name, most, low, high, ...)			\
	struct {							\
		u32	count;						\
		u32	numbers[most];					\
	} satcc_param_##name SEC(".data.param")				\
		__attribute__((btf_decl_tag("range " SATCC_TEXT(low) " " SATCC_TEXT(high)))) = { \
		sizeof((u32[]){ __VA_ARGS__ }) / sizeof(u32), { __VA_ARGS__ } \
	}

#define satcc_list(name)	satcc_param_##name.numbers
#define satcc_count(name)	READ_ONCE(satcc_param_##name.count)

#define SATCC_TEXT(value)	SATCC_TEXT_OF(value)
#define SATCC_TEXT_OF(value)	#value

/* Its value now. */
#define satcc_param(name)	READ_ONCE(satcc_param_##name)

#endif /* _SATCC_PARAM_H */
