/* A plugin of qemu's user mode that counts instructions, and writes the number to standard error. The few functions of
 * qemu's plugin interface that it needs are declared here. */
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t Id;
struct qemu_plugin_tb;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_trans_cb(Id id, void (*callback)(Id id, struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation, void *number, uint64_t summand);
void qemu_plugin_register_atexit_cb(Id id, void (*callback)(Id id, void *data), void *data);

EXPORT int qemu_plugin_version = 1;
static uint64_t count;

static void translated(Id id, struct qemu_plugin_tb *block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, 0 /* add */, &count, qemu_plugin_tb_n_insns(block));
}

static void ended(Id id, void *data)
{
    (void)id;
    (void)data;
    fprintf(stderr, "instructions: %llu\n", (unsigned long long)count);
}

EXPORT int qemu_plugin_install(Id id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, 0);
    return 0;
}
