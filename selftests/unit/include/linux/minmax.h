/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's, as far as the headers in modules/ need it, in user space. */
#ifndef _UNIT_LINUX_MINMAX_H
#define _UNIT_LINUX_MINMAX_H

#define min_t(type, x, y) \
	({ type _x = (x); type _y = (y); _x < _y ? _x : _y; })
#define max_t(type, x, y) \
	({ type _x = (x); type _y = (y); _x > _y ? _x : _y; })
#define clamp_t(type, val, lo, hi) \
	({ type _lo = (lo), _hi = (hi); min_t(type, max_t(type, val, _lo), _hi); })
#define min(x, y)	min_t(__typeof__(x), x, y)
#define max(x, y)	max_t(__typeof__(x), x, y)

#endif
