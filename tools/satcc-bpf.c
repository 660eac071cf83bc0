// SPDX-License-Identifier: GPL-2.0
/* Load, unload and list policies as BPF programs: see BPF.md, or `satcc-bpf --help`.
 *
 * An update of a policy's struct_ops map registers it. Linux 6.1 has no link for that. The policy
 * stays registered until it is unloaded; the pins in bpffs serve to find its maps.
 */
#include <errno.h>
#include <getopt.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#define BPFFS		"/sys/fs/bpf"
#define PINS		BPFFS "/satcc"
#define VMLINUX_BTF	"/sys/kernel/btf/vmlinux"
#define AVAILABLE	"/proc/sys/net/ipv4/tcp_available_congestion_control"

/* The section with an object's struct_ops maps, and the struct of a congestion control. */
#define OPS_SECTION	".struct_ops"
#define OPS_STRUCT	"tcp_congestion_ops"
#define NAME_SIZE	16	/* TCP_CA_NAME_MAX */
#define MOST_OPS	16

/* The map with a policy's parameters, and the prefix of their names. */
#define PARAM_SECTION	".data.param"
#define PARAM_PREFIX	"satcc_param_"

/* The prefix of the tag of a parameter whose values are words, and the longest list of numbers. */
#define WORDS		"words "
#define MOST_NUMBERS	64

/* The map with the error message about the parameters. */
#define ERROR_SECTION	".data.error"

/* 6.1 has 64696c40d03c ("bpf: Add __bpf_prog_{enter,exit}_struct_ops for struct_ops trampoline").
 * Older kernels may skip a program.
 */
#define OLDEST_MAJOR	6
#define OLDEST_MINOR	1

enum { FAILED = 1, USAGE = 2 };

/* The first members of a struct_ops map's value, in every kernel. */
struct ops_value {
	__u32	refcnt;
	__u32	state;
};

enum { STATE_REGISTERED = 1 };

static bool verbose;
static const char *map_name;	/* of the congestion control to load; NULL = the only one */

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/* Prints the reason on one line. Its value is the exit status. */
#define fail(format, ...) \
	(fprintf(stderr, "satcc-bpf: " format "\n", ##__VA_ARGS__), FAILED)

static int print_libbpf(enum libbpf_print_level level, const char *format, va_list words)
{
	(void)level;
	return verbose ? vfprintf(stderr, format, words) : 0;
}

/* ---- requirements ------------------------------------------------------- */

static int check_kernel(void)
{
	unsigned int major, minor;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return fail("cannot read the kernel's version");
	if (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR))
		return fail("Linux %s is too old: a policy in BPF needs %u.%u or later",
			    name.release, OLDEST_MAJOR, OLDEST_MINOR);

	return 0;
}

static int check_capabilities(void)
{
	static const struct {
		unsigned int number;
		const char *name;
	} needed[] = {
		{ CAP_BPF, "CAP_BPF" },
		{ CAP_PERFMON, "CAP_PERFMON" },
		{ CAP_NET_ADMIN, "CAP_NET_ADMIN" },
	};
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	size_t i;

	if (syscall(SYS_capget, &head, sets))
		return fail("cannot read the capabilities: %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(needed); i++) {
		__u32 word = sets[CAP_TO_INDEX(needed[i].number)].effective;

		if (!(word & CAP_TO_MASK(needed[i].number)))
			return fail("the capability %s is missing", needed[i].name);
	}

	return 0;
}

static int check_bpffs(void)
{
	struct statfs mounted;

	if (statfs(BPFFS, &mounted) || mounted.f_type != BPF_FS_MAGIC)
		return fail("no bpffs at %s: mount -t bpf none %s", BPFFS, BPFFS);

	return 0;
}

static int check_host(void)
{
	int err = check_kernel();

	if (!err)
		err = check_capabilities();
	if (!err && access(VMLINUX_BTF, R_OK))
		err = fail("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF): no %s", VMLINUX_BTF);
	if (!err)
		err = check_bpffs();

	return err;
}

/* ---- policies in the kernel --------------------------------------------- */

static bool is_available(const char *policy)
{
	char names[4096] = "", *name, *rest = names;
	FILE *file = fopen(AVAILABLE, "r");

	if (!file)
		return false;
	if (!fgets(names, sizeof(names), file))
		names[0] = '\0';
	fclose(file);
	names[strcspn(names, "\n")] = '\0';
	while ((name = strsep(&rest, " ")))
		if (!strcmp(name, policy))
			return true;

	return false;
}

/* Returns the offset of a struct's member in bytes, and sets *type to the member's type. Returns a
 * negative number if there is none.
 */
static int member_offset(const struct btf *btf, __u32 *type, const char *name)
{
	const struct btf_type *whole = btf__type_by_id(btf, *type);
	__u16 i;

	for (i = 0; whole && btf_is_struct(whole) && i < btf_vlen(whole); i++) {
		const struct btf_member *member = btf_members(whole) + i;

		if (strcmp(btf__name_by_offset(btf, member->name_off), name))
			continue;
		*type = member->type;
		return btf_member_bit_offset(whole, i) / 8;
	}

	return -ENOENT;
}

static bool is_ops_struct(const struct btf *btf, __u32 type)
{
	return !strcmp(btf__name_by_offset(btf, btf__type_by_id(btf, type)->name_off), OPS_STRUCT);
}

static const struct btf *kernel_btf(void)
{
	static struct btf *btf;

	if (!btf)
		btf = btf__load_vmlinux_btf();

	return btf;
}

/* Copies the name that is in a struct_ops map's value. Returns whether there is one. */
static bool copy_name(char *name, const struct bpf_map_info *info, const char *value)
{
	const struct btf *btf = kernel_btf();
	__u32 type = info->btf_vmlinux_value_type_id;
	int data = member_offset(btf, &type, "data"), offset;

	if (data < 0 || !is_ops_struct(btf, type))
		return false;
	offset = member_offset(btf, &type, "name");
	if (offset < 0 || data + offset + NAME_SIZE > (int)info->value_size)
		return false;
	snprintf(name, NAME_SIZE, "%s", value + data + offset);

	return true;
}

/* Copies the name of the congestion control that a map has registered. Returns whether it has. */
static bool is_registered(int fd, const struct bpf_map_info *info, char *name)
{
	char *value = calloc(1, info->value_size);
	__u32 zero = 0;
	bool registered;

	registered = value && !bpf_map_lookup_elem(fd, &zero, value) &&
		     ((struct ops_value *)value)->state == STATE_REGISTERED &&
		     copy_name(name, info, value);
	free(value);

	return registered;
}

/* Returns the map of the next registered policy after the map *id, and sets *id to its ID. Returns
 * a negative number if there is no further policy, or none that this process may read.
 */
static int next_policy(__u32 *id, char *name)
{
	while (!bpf_map_get_next_id(*id, id)) {
		struct bpf_map_info info = {};
		__u32 size = sizeof(info);
		int fd = bpf_map_get_fd_by_id(*id);

		if (fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &info, &size) &&
		    info.type == BPF_MAP_TYPE_STRUCT_OPS && is_registered(fd, &info, name))
			return fd;
		close(fd);
	}

	return -ENOENT;
}

static int find_policy(const char *policy)
{
	char name[NAME_SIZE];
	__u32 id = 0;
	int fd;

	while ((fd = next_policy(&id, name)) >= 0) {
		if (!strcmp(name, policy))
			return fd;
		close(fd);
	}

	return fd;
}

static void pin_path(char *path, size_t size, const char *policy, const char *what)
{
	snprintf(path, size, "%s/%s%s", PINS, policy, what);
}

static void unpin(const char *policy)
{
	static const char * const pins[] = { "", "-param" };
	char path[128];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(pins); i++) {
		pin_path(path, sizeof(path), policy, pins[i]);
		unlink(path);
	}
}

/* ---- parameters --------------------------------------------------------- */

struct param {
	const char *name;
	__u32	offset;		/* in the map's value */
	__u32	min, max;	/* bounds of a number */
	__u32	most;		/* longest list of numbers, after their count; 0 = no list */
	const char *words;	/* "a", "b"; NULL = numbers */
};

/* Reads the bounds or words of a variable from its tag. */
static bool read_tag(const struct btf *btf, __u32 variable, struct param *param)
{
	__u32 id, count = btf__type_cnt(btf);

	for (id = 1; id < count; id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);
		const char *tag;

		if (!btf_is_decl_tag(type) || type->type != variable)
			continue;
		tag = btf__name_by_offset(btf, type->name_off);
		if (sscanf(tag, "range %u %u", &param->min, &param->max) == 2)
			return true;
		if (!strncmp(tag, WORDS, strlen(WORDS))) {
			param->words = tag + strlen(WORDS);
			return true;
		}
	}

	return false;
}

/* Reads the i-th parameter of a policy. Returns false if there is none. */
static bool get_param(const struct btf *btf, __u32 i, struct param *param)
{
	int section = btf__find_by_name_kind(btf, PARAM_SECTION, BTF_KIND_DATASEC);
	const struct btf_type *type;
	const struct btf_var_secinfo *info;
	const char *name;

	if (section < 0)
		return false;
	type = btf__type_by_id(btf, section);
	if (i >= btf_vlen(type))
		return false;
	info = btf_var_secinfos(type) + i;
	name = btf__name_by_offset(btf, btf__type_by_id(btf, info->type)->name_off);
	if (strncmp(name, PARAM_PREFIX, strlen(PARAM_PREFIX)))
		return false;
	*param = (struct param){
		.name	= name + strlen(PARAM_PREFIX),
		.offset	= info->offset,
		.most	= info->size / sizeof(__u32) - 1,
	};

	return read_tag(btf, info->type, param);
}

/* Returns the next word in quotes and its length; NULL = none. *rest is moved after it. */
static const char *next_word(const char **rest, size_t *length)
{
	const char *begin = strchr(*rest, '"'), *end = begin ? strchr(begin + 1, '"') : NULL;

	if (!end)
		return NULL;
	*rest = end + 1;
	*length = end - begin - 1;

	return begin + 1;
}

/* Reads a word as its index. Returns whether it is one of the parameter's words. */
static bool read_word(const struct param *param, const char *text, __u32 *value)
{
	const char *rest = param->words, *word;
	size_t length;

	for (*value = 0; (word = next_word(&rest, &length)); ++*value)
		if (strlen(text) == length && !strncmp(text, word, length))
			return true;

	return false;
}

/* Reads a number that ends at a comma or the text's end, and sets *end to that. Returns whether it
 * is a number within bounds.
 */
static bool read_number(const struct param *param, const char *text, char **end, __u32 *value)
{
	unsigned long long number;

	errno = 0;
	number = strtoull(text, end, 0);
	if (errno || *end == text || !strchr("0123456789+", *text) ||
	    number < param->min || number > param->max)
		return false;
	*value = number;

	return !**end || (param->most && **end == ',');
}

/* Reads the text after a parameter's "=" to place. Returns whether it is within bounds. */
static bool read_value(const struct param *param, const char *text, __u32 *place)
{
	__u32 *numbers = param->most ? place + 1 : place, count = 0;
	char *end;

	if (param->words)
		return read_word(param, text, place);
	do {
		if (count && count == param->most)
			return false;
		if (!read_number(param, text, &end, numbers + count++))
			return false;
		text = end + 1;
	} while (*end);
	if (param->most)
		*place = count;

	return true;
}

static int refuse_value(const struct param *param, const char *word)
{
	if (param->words)
		return fail("%s is not one of %s", word, param->words);
	if (param->most)
		return fail("%s is out of bounds: 1 to %u numbers, %u to %u each", word,
			    param->most, param->min, param->max);

	return fail("%s is out of bounds: %u to %u", word, param->min, param->max);
}

/* Sets a parameter, "name=value", in a map's value. */
static int set_param(const struct btf *btf, char *values, const char *policy, const char *word)
{
	size_t length = strcspn(word, "=");
	__u32 i, place[MOST_NUMBERS + 1] = {};
	struct param param;

	if (!word[length])
		return fail("%s is not name=value", word);
	for (i = 0; get_param(btf, i, &param); i++)
		if (strlen(param.name) == length && !strncmp(param.name, word, length))
			break;
	if (!get_param(btf, i, &param))
		return fail("%s has no parameter %.*s", policy, (int)length, word);

	if (param.most > MOST_NUMBERS)
		return fail("%s has too many numbers", param.name);
	if (!read_value(&param, word + length + 1, place))
		return refuse_value(&param, word);
	memcpy(values + param.offset, place, (1 + param.most) * sizeof(*place));

	return 0;
}

static void print_param(const struct param *param, const char *values)
{
	const char *rest = param->words, *word = NULL;
	__u32 first, i, number;
	size_t length = 0;

	memcpy(&first, values + param->offset, sizeof(first));
	printf(" %s=", param->name);
	if (param->words) {
		for (i = 0; i <= first; i++)
			word = next_word(&rest, &length);
		printf("%.*s", word ? (int)length : 0, word);
	} else if (param->most) {
		for (i = 0; i < first && i < param->most; i++) {
			memcpy(&number, values + param->offset + (1 + i) * sizeof(number),
			       sizeof(number));
			printf("%s%u", i ? "," : "", number);
		}
	} else {
		printf("%u", first);
	}
}

/* ---- commands ----------------------------------------------------------- */

/* A congestion control of an object: its map, and the name that it registers. */
struct ops {
	struct bpf_map	*map;
	char		name[NAME_SIZE];
};

/* An object's file, and the section with its struct_ops maps. */
struct ops_file {
	char		*bytes;
	const char	*section;	/* NULL = none */
	__u64		size, section_size;
};

/* The head of a 64-bit ELF file, and of a section. */
struct elf_head {
	__u8	ident[16];
	__u16	type, machine;
	__u32	version;
	__u64	entry, segments, sections;
	__u32	flags;
	__u16	size, segment_size, segment_count, section_size, section_count, names;
};

struct elf_section {
	__u32	name, type;
	__u64	flags, address, offset, size;
	__u32	link, info;
	__u64	alignment, entry_size;
};

/* Returns a section whose bytes are in the file. */
static const struct elf_section *elf_section(const struct ops_file *file, __u16 number)
{
	const struct elf_head *head = (void *)file->bytes;
	__u64 offset = head->sections + (__u64)number * sizeof(struct elf_section);
	const struct elf_section *section = (void *)(file->bytes + offset);

	if (number >= head->section_count || head->section_size != sizeof(*section) ||
	    offset + sizeof(*section) > file->size || section->offset > file->size ||
	    section->size > file->size - section->offset)
		return NULL;

	return section;
}

static void find_ops_section(struct ops_file *file)
{
	const struct elf_head *head = (void *)file->bytes;
	const struct elf_section *names = elf_section(file, head->names);
	__u16 i;

	for (i = 0; names && i < head->section_count; i++) {
		const struct elf_section *section = elf_section(file, i);

		if (!section || section->name + sizeof(OPS_SECTION) > names->size ||
		    strcmp(file->bytes + names->offset + section->name, OPS_SECTION))
			continue;
		file->section = file->bytes + section->offset;
		file->section_size = section->size;
	}
}

/* Reads a file that libbpf has accepted. The caller frees its bytes. */
static int read_ops_file(const char *path, struct ops_file *file)
{
	FILE *from = fopen(path, "r");
	struct stat about;

	*file = (struct ops_file){};
	if (from && !fstat(fileno(from), &about)) {
		file->bytes = malloc(about.st_size + 1);
		file->size = about.st_size;
	}
	if (file->bytes && file->size > sizeof(struct elf_head) &&
	    fread(file->bytes, file->size, 1, from) == 1)
		find_ops_section(file);
	if (from)
		fclose(from);

	return file->bytes ? 0 : fail("cannot read %s: %s", path, strerror(errno));
}

/* Reads the name that a variable of the section registers. Returns whether it is a congestion
 * control.
 */
static bool read_ops(const struct bpf_object *object, const struct btf_var_secinfo *info,
		     const struct ops_file *file, struct ops *ops)
{
	const struct btf *btf = bpf_object__btf(object);
	const struct btf_type *variable = btf__type_by_id(btf, info->type);
	__u32 type = variable->type;
	int offset;

	if (!is_ops_struct(btf, type))
		return false;
	offset = member_offset(btf, &type, "name");
	if (offset < 0 || info->offset + offset + NAME_SIZE > file->section_size)
		return false;
	snprintf(ops->name, NAME_SIZE, "%s", file->section + info->offset + offset);
	ops->map = bpf_object__find_map_by_name(object,
						btf__name_by_offset(btf, variable->name_off));

	return ops->map;
}

/* Fills ops with the congestion controls of an object, and returns their number. */
static size_t list_ops(const struct bpf_object *object, const struct ops_file *file,
		       struct ops *ops, size_t most)
{
	const struct btf *btf = bpf_object__btf(object);
	int section = btf__find_by_name_kind(btf, OPS_SECTION, BTF_KIND_DATASEC);
	const struct btf_type *type = section < 0 ? NULL : btf__type_by_id(btf, section);
	size_t count = 0;
	__u16 i;

	for (i = 0; file->section && type && i < btf_vlen(type) && count < most; i++)
		if (read_ops(object, btf_var_secinfos(type) + i, file, ops + count))
			count++;

	return count;
}

/* Chooses the congestion control that has a name, or a map of this name. */
static int choose_ops(struct ops *ops, size_t count, const char *file, const char *name)
{
	char names[MOST_OPS * (NAME_SIZE + 2)] = "";
	size_t i;

	for (i = 0; i < count; i++) {
		if (name && (!strcmp(ops[i].name, name) ||
			     !strcmp(bpf_map__name(ops[i].map), name))) {
			ops[0] = ops[i];
			return 0;
		}
		strcat(strcat(names, i ? ", " : ""), ops[i].name);
	}
	if (!count)
		return fail("%s has no congestion control", file);
	if (name)
		return fail("%s has no congestion control %s (it has: %s)", file, name, names);
	if (count > 1)
		return fail("%s has several congestion controls; name one: --map %s (or %s)", file,
			    ops[0].name, strchr(names, ' ') + 1);

	return 0;
}

/* Finds the congestion control to load in an object and its file. */
static int find_ops(const struct bpf_object *object, const char *file, const char *name,
		    struct ops *found)
{
	struct ops ops[MOST_OPS];
	struct ops_file read;
	int err;

	if (read_ops_file(file, &read))
		return FAILED;
	err = choose_ops(ops, list_ops(object, &read, ops, MOST_OPS), file, name);
	if (!err)
		*found = ops[0];
	free(read.bytes);

	return err;
}

/* libbpf prefixes the map's name with the object's, but finds it by its section. */
static struct bpf_map *params_of(struct bpf_object *object)
{
	return bpf_object__find_map_by_name(object, PARAM_SECTION);
}

static int check_name(const char *policy)
{
	char module[64];
	int fd;

	if (!is_available(policy))
		return 0;
	fd = find_policy(policy);
	if (fd >= 0) {
		close(fd);
		return fail("%s is loaded already: satcc-bpf unload %s", policy, policy);
	}
	snprintf(module, sizeof(module), "/sys/module/tcp_%s", policy);
	if (!access(module, F_OK))
		return fail("the name %s is taken by the module tcp_%s: rmmod tcp_%s",
			    policy, policy, policy);

	return fail("the name %s is taken by the kernel", policy);
}

static int set_params(struct bpf_object *object, const char *policy, char **words)
{
	struct bpf_map *params = params_of(object);
	const void *defaults;
	char *values;
	size_t size;
	int err = 0;

	if (!*words)
		return 0;
	if (!params)
		return fail("%s has no parameters", policy);
	defaults = bpf_map__initial_value(params, &size);
	values = malloc(size);
	if (!values)
		return fail("no memory");
	memcpy(values, defaults, size);
	for (; *words && !err; words++)
		err = set_param(bpf_object__btf(object), values, policy, *words);
	if (!err && bpf_map__set_initial_value(params, values, size))
		err = fail("cannot set the parameters");
	free(values);

	return err;
}

static int pin(struct bpf_map *map, const char *policy, const char *what)
{
	char path[128];

	if (!map)
		return 0;
	pin_path(path, sizeof(path), policy, what);
	unlink(path);
	if (bpf_obj_pin(bpf_map__fd(map), path))
		return fail("cannot create %s: %s", path, strerror(errno));

	return 0;
}

/* Registers a loaded policy, and leaves it registered. */
static int attach(struct bpf_object *object, struct bpf_map *ops, const char *policy)
{
	struct bpf_link *link;

	if (mkdir(PINS, 0755) && errno != EEXIST)
		return fail("cannot create %s: %s", PINS, strerror(errno));
	if (pin(ops, policy, "") || pin(params_of(object), policy, "-param"))
		return FAILED;
	link = bpf_map__attach_struct_ops(ops);
	if (!link)
		return fail("the kernel does not register %s: %s", policy, strerror(errno));
	/* Otherwise the end of the link, with this program, would unregister the policy. */
	bpf_link__disconnect(link);
	bpf_link__destroy(link);

	return 0;
}

/* Prints why an object refuses its parameters. */
static int refuse_params(struct bpf_object *object, const char *policy)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ERROR_SECTION);
	__u32 size = map ? bpf_map__value_size(map) : 0, zero = 0;
	char *words = calloc(1, size + 1);
	int err;

	if (words && map)
		bpf_map_lookup_elem(bpf_map__fd(map), &zero, words);
	err = fail("%s: %.*s", policy, words ? (int)strcspn(words, "\n") : 0, words ? words : "");
	free(words);

	return err;
}

/* Runs the object's check of its parameters, as the module does when it is loaded. */
static int check_params(struct bpf_object *object, const char *policy)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	struct bpf_program *check;

	bpf_object__for_each_program(check, object)
		if (bpf_program__type(check) == BPF_PROG_TYPE_SYSCALL)
			break;
	if (!check)
		return 0;
	if (bpf_prog_test_run_opts(bpf_program__fd(check), &run))
		return fail("cannot check the parameters: %s", strerror(errno));

	return run.retval ? refuse_params(object, policy) : 0;
}

static int load_object(struct bpf_object *object, const struct ops *ops, char **words)
{
	const char *policy = ops->name;
	int err;

	err = check_name(policy);
	if (!err)
		err = set_params(object, policy, words);
	if (err)
		return err;
	if (bpf_object__load(object))
		return fail("the kernel refuses %s: %s; --verbose shows why", policy,
			    strerror(errno));
	err = check_params(object, policy);
	if (err)
		return err;
	err = attach(object, ops->map, policy);
	if (err)
		unpin(policy);

	return err;
}

/* Returns the number of arguments of the running kernel's cong_control(); 0 = unknown. */
static unsigned int cong_control_arguments(void)
{
	const struct btf *btf = kernel_btf();
	int id = btf ? btf__find_by_name_kind(btf, OPS_STRUCT, BTF_KIND_STRUCT) : -ENOENT;
	const struct btf_type *ops = id > 0 ? btf__type_by_id(btf, id) : NULL, *type;
	unsigned int arguments = 0;
	__u16 i;

	for (i = 0; ops && i < btf_vlen(ops); i++) {
		const struct btf_member *member = btf_members(ops) + i;

		if (strcmp(btf__name_by_offset(btf, member->name_off), "cong_control"))
			continue;
		type = btf__type_by_id(btf, member->type);
		if (btf_is_ptr(type))
			type = btf__type_by_id(btf, type->type);
		if (btf_is_func_proto(type))
			arguments = btf_vlen(type);
	}

	return arguments;
}

/* Returns whether a program may call bpf_probe_read_kernel(), which lockdown=confidentiality
 * forbids. libbpf_probe_bpf_helper() knows only the messages of older kernels, so this loads a
 * program with the call: it reads 8 bytes from address 0 to its stack.
 */
static bool may_read_kernel(void)
{
	const struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_1,
		  .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = -8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_probe_read_kernel },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, NULL, "GPL", program,
			       ARRAY_SIZE(program), NULL);

	if (fd >= 0)
		close(fd);

	return fd >= 0;
}

/* Writes the properties of the running kernel that the programs need before they are verified, as
 * lines of a kernel's configuration. The coarse clocks have a resolution of one tick.
 */
static void describe_kernel(char *text, size_t size)
{
	struct timespec tick = {};
	long hz = 0;

	if (!clock_getres(CLOCK_REALTIME_COARSE, &tick) && tick.tv_nsec > 0)
		hz = (1000000000 + tick.tv_nsec / 2) / tick.tv_nsec;
	snprintf(text, size,
		 "CONFIG_HZ=%ld\nCONFIG_SATCC_CONG_CONTROL_ARGS=%u\nCONFIG_SATCC_READ_KERNEL=%d\n",
		 hz, cong_control_arguments(), may_read_kernel());
}

static int do_load(char **words)
{
	LIBBPF_OPTS(bpf_object_open_opts, options);
	struct bpf_object *object;
	char kernel[128];
	struct ops ops;
	int err;

	if (check_host())
		return FAILED;
	describe_kernel(kernel, sizeof(kernel));
	options.kconfig = kernel;
	object = bpf_object__open_file(words[0], &options);
	if (!object)
		return fail("cannot read %s as a BPF object: %s", words[0], strerror(errno));
	err = find_ops(object, words[0], map_name, &ops);
	if (!err)
		err = load_object(object, &ops, words + 1);
	bpf_object__close(object);

	return err;
}

static int do_unload(char **words)
{
	const char *policy = words[0];
	__u32 zero = 0;
	int fd, err = 0;

	if (check_kernel() || check_capabilities())
		return FAILED;
	fd = find_policy(policy);
	if (fd < 0)
		return fail("%s is not loaded as a BPF object", policy);
	if (bpf_map_delete_elem(fd, &zero))
		err = fail("cannot unload %s: %s", policy, strerror(errno));
	else
		unpin(policy);
	close(fd);

	return err;
}

static void list_params(const char *policy)
{
	struct bpf_map_info info = {};
	__u32 size = sizeof(info), zero = 0, i;
	struct btf *btf = NULL;
	struct param param;
	char path[128], *values = NULL;
	int fd;

	pin_path(path, sizeof(path), policy, "-param");
	fd = bpf_obj_get(path);
	if (fd < 0)
		return;
	if (!bpf_obj_get_info_by_fd(fd, &info, &size)) {
		btf = btf__load_from_kernel_by_id(info.btf_id);
		values = calloc(1, info.value_size);
	}
	if (btf && values && !bpf_map_lookup_elem(fd, &zero, values))
		for (i = 0; get_param(btf, i, &param); i++)
			print_param(&param, values);
	free(values);
	btf__free(btf);
	close(fd);
}

static int do_list(char **words)
{
	char name[NAME_SIZE];
	__u32 id = 0;
	int fd;

	(void)words;
	if (check_capabilities())
		return FAILED;
	while ((fd = next_policy(&id, name)) >= 0) {
		printf("%s BPF", name);
		list_params(name);
		putchar('\n');
		close(fd);
	}

	return 0;
}

static const struct command {
	const char *name, *arguments;
	int least, most;		/* arguments */
	int (*run)(char **words);
	const char *help;
} commands[] = {
	{ "load", "FILE [NAME=VALUE]...", 1, 64, do_load,
	  "load a policy, with these parameters, and register it" },
	{ "unload", "POLICY", 1, 1, do_unload,
	  "unregister a policy; its connections keep it until they close" },
	{ "list", "", 0, 0, do_list,
	  "list the policies that are BPF programs, and their parameters" },
};

static int print_usage(FILE *out)
{
	size_t i;

	fputs("usage: satcc-bpf [--verbose] [--map NAME] COMMAND\n\n", out);
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-6s %-22s %s\n", commands[i].name, commands[i].arguments,
			commands[i].help);
	fputs("\n  -m, --map NAME                load the congestion control or map of this name\n"
	      "  -v, --verbose                 print messages of libbpf and the verifier\n"
	      "  -h, --help\n", out);

	return out == stdout ? 0 : USAGE;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "map", required_argument, NULL, 'm' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	int option;
	size_t i;

	while ((option = getopt_long(argc, argv, "m:vh", options, NULL)) != -1) {
		if (option == 'h')
			return print_usage(stdout);
		if (option == 'm')
			map_name = optarg;
		else if (option == 'v')
			verbose = true;
		else
			return print_usage(stderr);
	}
	argc -= optind + 1;
	argv += optind;
	libbpf_set_print(print_libbpf);
	for (i = 0; argc >= 0 && i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[0], commands[i].name) && argc >= commands[i].least &&
		    argc <= commands[i].most)
			return commands[i].run(argv + 1);

	return print_usage(stderr);
}
