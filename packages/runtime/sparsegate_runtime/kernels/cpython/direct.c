/* Calls a compiled network on a tensor with little overhead: two calls of DLPack, and the network itself.
 *
 * A Direct returns NotImplemented in all but the simplest case (when autograd records, when hooks are
 * registered, for other kinds of input). Its owner then makes the full call of a module, which also
 * reports errors.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdlib.h>

#include "exchange.h"

#define MOST_DIMS 8
#define LINE 64 /* bytes: alignment of outputs */
#define NEVER_MAPPED 65536 /* no process has memory at these first addresses */

typedef int64_t (*Run)(const void *context, const float *in, float *out, int64_t count, int64_t num_threads);
typedef void (*Wired)(const float *in, long count, float *out);

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    const Exchange *exchange;
    PyObject *tensor;                     /* torch.Tensor; subclasses take the full call */
    PyObject *grad_enabled, *num_threads; /* functions of torch without arguments */
    PyObject *is_neg;                     /* torch.Tensor.is_neg: DLPack does not pass on the negative bit */
    PyObject *hooks;                      /* a tuple of dictionaries, which are empty without hooks */
    PyObject *keep;                       /* owns the memory that context points to */
    Run run;                              /* NULL for hard-wired code, whose function is the context */
    void *context;
    int in_dims, out_dims; /* including the batch, which comes first and has any size */
    int64_t in_shape[MOST_DIMS], out_shape[MOST_DIMS];
} Direct;

/* ---- one call ---- */

typedef struct {
    Managed managed;
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
} Output;

static void discard(Managed *self)
{
    free(self); /* the first field of an Output */
}

static Output *new_output(const Direct *self, int64_t count)
{
    int64_t size = 1, step = 1;
    Output *made;
    for (int i = 1; i < self->out_dims; i++)
        size *= self->out_shape[i];
    made = malloc(sizeof *made + LINE + (size_t)(count * size) * sizeof(float));
    if (!made)
        return NULL;
    memset(made, 0, sizeof *made);
    for (int i = self->out_dims - 1; i >= 0; i--) {
        made->shape[i] = i ? self->out_shape[i] : count;
        made->strides[i] = step;
        step *= made->shape[i];
    }
    made->managed.major = 1;
    made->managed.deleter = discard;
    made->managed.tensor.data = (char *)(made + 1) + (LINE - (uintptr_t)(made + 1) % LINE);
    made->managed.tensor.device_type = ON_CPU;
    made->managed.tensor.ndim = self->out_dims;
    made->managed.tensor.code = IS_FLOAT;
    made->managed.tensor.bits = 32;
    made->managed.tensor.lanes = 1;
    made->managed.tensor.shape = made->shape;
    made->managed.tensor.strides = made->strides;
    return made;
}

static int is_wanted(const Direct *self, const Tensor *x)
{
    int64_t step = 1;
    if (x->device_type != ON_CPU || x->code != IS_FLOAT || x->bits != 32 || x->lanes != 1)
        return 0;
    if ((uintptr_t)x->data < NEVER_MAPPED) /* freed: zero, or zero and the offset of a view */
        return 0;
    if (x->ndim != self->in_dims || x->shape[0] < 1)
        return 0;
    for (int i = self->in_dims - 1; i >= 0; i--) {
        if (i && x->shape[i] != self->in_shape[i])
            return 0;
        if (x->shape[i] != 1 && x->strides && x->strides[i] != step)
            return 0;
        step *= x->shape[i];
    }
    return 1;
}

static int is_hooked(const Direct *self)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->hooks); i++)
        if (PyDict_Size(PyTuple_GET_ITEM(self->hooks, i)))
            return 1;
    return 0;
}

/* Calls a function of torch, with `arg` unless it is NULL; returns its result as a number, or -1 if it
 * fails. */
static long asked(PyObject *function, PyObject *arg)
{
    PyObject *answer = arg ? PyObject_CallOneArg(function, arg) : PyObject_CallNoArgs(function);
    long number = answer ? PyLong_AsLong(answer) : -1;
    Py_XDECREF(answer);
    return number;
}

static int64_t run(const Direct *self, const Tensor *x, const Output *out, long num_threads)
{
    const float *in = (const float *)(const void *)((const char *)x->data + x->byte_offset);
    int64_t count = x->shape[0], failed = 0;
    Py_BEGIN_ALLOW_THREADS;
    if (self->run)
        failed = self->run(self->context, in, out->managed.tensor.data, count, num_threads);
    else
        ((Wired)self->context)(in, (long)count, out->managed.tensor.data);
    Py_END_ALLOW_THREADS;
    return failed;
}

static PyObject *call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names)
{
    const Direct *self = (const Direct *)callable;
    Tensor x = {0};
    Output *out;
    void *made = NULL;
    long grad, neg, num_threads;
    if (PyVectorcall_NARGS(nargsf) != 1 || names || (PyObject *)Py_TYPE(args[0]) != self->tensor || is_hooked(self))
        Py_RETURN_NOTIMPLEMENTED;
    if ((grad = asked(self->grad_enabled, NULL)) < 0 || (neg = asked(self->is_neg, args[0])) < 0 ||
        (num_threads = self->run ? asked(self->num_threads, NULL) : 1) < 0)
        return NULL;
    if (grad || neg)
        Py_RETURN_NOTIMPLEMENTED;
    if (self->exchange->look(args[0], &x)) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (!is_wanted(self, &x))
        Py_RETURN_NOTIMPLEMENTED;
    out = new_output(self, x.shape[0]);
    if (!out)
        return PyErr_NoMemory();
    if (run(self, &x, out, num_threads)) {
        free(out);
        return PyErr_NoMemory();
    }
    return self->exchange->wrap(&out->managed, &made) ? NULL : made;
}

/* ---- the type ---- */

static int read_shape(PyObject *from, int *dims, int64_t *shape)
{
    if (!PyTuple_Check(from) || PyTuple_GET_SIZE(from) + 1 > MOST_DIMS) {
        PyErr_Format(PyExc_ValueError, "expected a shape of at most %d sizes, got %R", MOST_DIMS - 1, from);
        return -1;
    }
    *dims = 1 + (int)PyTuple_GET_SIZE(from);
    for (int i = 1; i < *dims; i++) {
        shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(from, i - 1));
        if (shape[i] < 1) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "expected a shape of positive sizes, got %R", from);
            return -1;
        }
    }
    return 0;
}

static int read_hooks(PyObject *hooks)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(hooks); i++)
        if (!PyDict_Check(PyTuple_GET_ITEM(hooks, i))) {
            PyErr_Format(PyExc_ValueError, "expected hooks to be dictionaries, got %R", PyTuple_GET_ITEM(hooks, i));
            return -1;
        }
    return 0;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *names)
{
    static char *words[] = {"exchange", "torch", "function", "context", "shapes", "hooks", "keep", NULL};
    PyObject *exchange, *in, *out, *tensor, *grad_enabled, *num_threads, *hooks, *keep;
    unsigned long long function, context;
    Direct *self;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O(OOO)KK(OO)O!O", words, &exchange, &tensor, &grad_enabled,
                                     &num_threads, &function, &context, &in, &out, &PyTuple_Type, &hooks, &keep) ||
        read_hooks(hooks))
        return NULL;
    self = (Direct *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->call = call;
    self->run = (Run)(uintptr_t)function;
    self->context = (void *)(uintptr_t)context;
    Py_INCREF(self->tensor = tensor);
    Py_INCREF(self->grad_enabled = grad_enabled);
    Py_INCREF(self->num_threads = num_threads);
    self->is_neg = PyObject_GetAttrString(tensor, "is_neg");
    Py_INCREF(self->hooks = hooks);
    Py_INCREF(self->keep = keep);
    self->exchange = PyCapsule_GetPointer(exchange, "dlpack_exchange_api");
    if (self->exchange && (self->exchange->major != 1 || !self->exchange->look))
        PyErr_SetString(PyExc_ValueError, "expected version 1 of DLPack with its `look` function");
    if (PyErr_Occurred() || read_shape(in, &self->in_dims, self->in_shape) ||
        read_shape(out, &self->out_dims, self->out_shape)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Direct *self = (Direct *)object;
    Py_VISIT(self->tensor);
    Py_VISIT(self->grad_enabled);
    Py_VISIT(self->num_threads);
    Py_VISIT(self->is_neg);
    Py_VISIT(self->hooks);
    Py_VISIT(self->keep);
    return 0;
}

static void discard_direct(PyObject *object)
{
    Direct *self = (Direct *)object;
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->tensor);
    Py_XDECREF(self->grad_enabled);
    Py_XDECREF(self->num_threads);
    Py_XDECREF(self->is_neg);
    Py_XDECREF(self->hooks);
    Py_XDECREF(self->keep);
    Py_TYPE(object)->tp_free(object);
}

/* Immutable, like a tuple: in a reference cycle, another object is cleared. */
static PyTypeObject DirectType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "sparsegate_runtime.kernels._direct.Direct",
    .tp_doc = "Direct(exchange, torch, function, context, shapes, hooks, keep): a call of compiled code on a tensor.",
    .tp_basicsize = sizeof(Direct),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Direct, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = make,
    .tp_traverse = traverse,
    .tp_dealloc = discard_direct,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_direct", .m_size = -1};

PyMODINIT_FUNC PyInit__direct(void)
{
    PyObject *made = PyType_Ready(&DirectType) ? NULL : PyModule_Create(&module);
    if (made && PyModule_AddObjectRef(made, "Direct", (PyObject *)&DirectType)) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
