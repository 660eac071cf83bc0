/* SPDX-License-Identifier: GPL-2.0 */
/* The state of an mtsi flow. */
#ifndef _MTSI_H
#define _MTSI_H

#include <linux/types.h>

/* Which F() slow start uses. The last three are in the order of the parameter mode. */
enum mtsi_mode {
	MTSI_PLAIN,		/* F = 1 per segment, the kernel's slow start: in Loss */
	MTSI_F_MTSI,		/* multi threshold smoothed increase */
	MTSI_F_CONST,
	MTSI_F_LINEAR,
};

/* Per flow; valid only if owner matches, see owner.h. Written under the socket lock.
 * get_info() reads it without the lock.
 */
struct mtsi {
	u32	owner;
	u32	f;		/* F of the last step of slow start, segments; 0 = none */
};

#endif /* _MTSI_H */
