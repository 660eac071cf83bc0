/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's minmax.h for BPF. */
#ifndef _SATCC_BPF_MINMAX_H
#define _SATCC_BPF_MINMAX_H

#define min_t(type, x, y) \
	({ type _x = (x); type _y = (y); _x < _y ? _x : _y; })
#define max_t(type, x, y) \
	({ type _x = (x); type _y = (y); _x > _y ? _x : _y; })
#define clamp_t(type, val, lo, hi) \
	({ type _lo = (lo), _hi = (hi); min_t(type, max_t(type, val, _lo), _hi); })
#define min(x, y)		min_t(typeof((x) + (y)), x, y)
#define max(x, y)		max_t(typeof((x) + (y)), x, y)
#define min3(x, y, z)		min(min(x, y), z)
#define max3(x, y, z)		max(max(x, y), z)
#define clamp(val, lo, hi)	min(max(val, lo), hi)

#endif /* _SATCC_BPF_MINMAX_H */
