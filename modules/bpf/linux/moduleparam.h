/* SPDX-License-Identifier: GPL-2.0 */
/* See param.h beside this folder. */
