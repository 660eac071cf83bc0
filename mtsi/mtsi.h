/* SPDX-License-Identifier: GPL-2.0 */
/* What mtsi keeps per flow. */
#ifndef _MTSI_H
#define _MTSI_H

#include <linux/types.h>

/* Which F() slow start uses. */
enum mtsi_mode {
	MTSI_PLAIN,		/* F = 1 per segment, the kernel's: in Loss */
	MTSI_F_MTSI,		/* multi threshold smoothed increase; these as mode has them */
	MTSI_F_CONST,
	MTSI_F_LINEAR,
};

/* Per flow; not its own unless owner says so, see owner.h. Written under the socket
 * lock; also read by get_info(), without it.
 */
struct mtsi {
	u32	owner;
	u32	f;		/* F of the last step of slow start, segments; 0 = none */
};

#endif /* _MTSI_H */
