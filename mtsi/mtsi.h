/* SPDX-License-Identifier: GPL-2.0 */
/* What mtsi keeps per flow, and what its trace event reports. */
#ifndef _MTSI_H
#define _MTSI_H

#include <linux/limits.h>
#include <linux/types.h>

#include "event.h"

/* Which F() slow start uses. */
enum mtsi_mode {
	MTSI_PLAIN,		/* F = 1 per segment, the kernel's: in Loss */
	MTSI_F_MTSI,		/* multi threshold smoothed increase */
	MTSI_F_CONST,
	MTSI_F_LINEAR,
};

#define MTSI_NO_LIMIT	U32_MAX

/* Per flow. All zero, as before init() and after disconnect, means: slow start has
 * not begun. Written under the socket lock; also read by get_info(), without it.
 */
struct mtsi {
	u32	f;		/* F of the last step of slow start, segments */
};

/* What a decision is based on and came to, for the trace: beside struct
 * satcc_event.
 */
struct mtsi_basis {
	u32	f_old;		/* F before it, segments */
	u32	cnt_old;	/* snd_cwnd_cnt before it, segments */
	u32	k;		/* K of the last step of slow start; 0 = none */
	u32	steps;		/* of slow start, taken */
	u32	ack_limit;	/* of slow start, most for one ACK; MTSI_NO_LIMIT */
	u8	mode;		/* enum mtsi_mode that growth used or would use */
};

#endif /* _MTSI_H */
