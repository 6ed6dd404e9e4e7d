/* A CUDA driver without a GPU: enough of libcuda.so.1 for portatile's CUDA back end, with what the real one would refuse.

   Device memory is an arena at ARENA, where the interpreter of PTX expects global memory. Commands run when they are given, or whenever the
   graph does that they were captured into. What depends on
   kernels (modules, functions, launches) is asked of Python by the callbacks below. Handles, ranges of addresses and the thread's current
   context are checked, so that a use after release, a copy past an allocation or a call without a context is an error as on a GPU. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ARENA 0x1000000000ull
#define ARENA_BYTES (1ull << 28)
#define ALIGN 256ull
#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_IMAGE = 200, INVALID_HANDLE = 400,
       NOT_FOUND = 500, NOT_SUPPORTED = 801, LAUNCH_FAILED = 719, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901,
       CAPTURE_ISOLATION = 905 };
typedef int CUresult;
typedef unsigned long long CUdeviceptr;

/* Python's part. Each returns a CUresult. */
typedef struct {
    CUresult (*load)(const char *image, unsigned long long *module);
    CUresult (*function)(unsigned long long module, const char *name, unsigned long long *function);
    CUresult (*parameter)(unsigned long long function, size_t index, size_t *offset, size_t *size);
    CUresult (*launch)(unsigned long long function, const unsigned *grid, const unsigned *block, unsigned shared, void **parameters);
} Callbacks;
static Callbacks python;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What a test may ask about. */
EXPORT unsigned long long emulated_early, emulated_launches, emulated_allocations, emulated_live_bytes, emulated_graphs, emulated_peer_copies, emulated_locked_bytes;

/* Launches do nothing, to time what leads to them. */
EXPORT int emulated_quiet;

/* Allocations, in order of their addresses. */
typedef struct Block { CUdeviceptr at; size_t size; int used; struct Block *next; } Block;
static Block *blocks;

static int ready(void) {
    if (blocks) return 1;
    void *got = mmap((void *)ARENA, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != (void *)ARENA) return 0;
    blocks = calloc(1, sizeof(Block));
    blocks->at = ARENA + ALIGN;
    blocks->size = ARENA_BYTES - ALIGN;
    return 1;
}

static CUdeviceptr take(size_t size) {
    CUdeviceptr found = 0;
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    pthread_mutex_lock(&lock);
    for (Block *block = ready() ? blocks : NULL; block && !found; block = block->next)
        if (!block->used && block->size >= size) {
            if (block->size > size) {
                Block *rest = calloc(1, sizeof(Block));
                rest->at = block->at + size, rest->size = block->size - size, rest->next = block->next;
                block->next = rest, block->size = size;
            }
            block->used = 1, found = block->at;
            memset((void *)found, 0xCB, size);
            emulated_allocations++, emulated_live_bytes += size;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

static CUresult give(CUdeviceptr at) {
    CUresult result = INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (Block *block = blocks; block; block = block->next)
        if (block->used && block->at == at) {
            block->used = 0, result = OK;
            emulated_live_bytes -= block->size;
            memset((void *)at, 0xDD, block->size);
        }
    for (Block *block = blocks; block && block->next;)
        if (!block->used && !block->next->used) {
            Block *gone = block->next;
            block->size += gone->size, block->next = gone->next;
            free(gone);
        } else
            block = block->next;
    pthread_mutex_unlock(&lock);
    return result;
}

static int lies(CUdeviceptr at, size_t size) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (Block *block = blocks; block && !found; block = block->next)
        found = block->used && at >= block->at && at + size <= block->at + block->size;
    pthread_mutex_unlock(&lock);
    return found;
}

/* A graph: kernels with copies of their parameters, fills, copies and memory of its own, in order. A stream that is captured fills one. */
typedef struct Command {
    enum { LAUNCH, FILL, COPY } kind;
    unsigned long long function;
    unsigned grid[3], block[3], shared;
    void **parameters;
    size_t count;
    CUdeviceptr to, from;
    size_t size, width;
    unsigned value;
    struct Command *next;
} Command;
typedef struct { void (*destroy)(void *); void *data; int users; } UserObject; /* which graphs keep */
typedef struct { unsigned magic; Command *first, *last; CUdeviceptr memory[64]; unsigned long long number; int memories, invalid, keeps; UserObject *kept[64]; } Graph;
enum { GRAPH = 0x94A94, EXECUTABLE = 0xE8EC0 };

/* Handles of streams and events. */
typedef struct { unsigned magic; double seconds; int recorded; Graph *capture; /* of an event: into which it was recorded */ void *context; } Handle;
enum { STREAM = 0x57EA3, EVENT = 0xE7E47, POOL = 0x900A1 };

static Handle *made(unsigned magic) {
    Handle *handle = calloc(1, sizeof(Handle));
    handle->magic = magic;
    return handle;
}
static int is(Handle *handle, unsigned magic) { return handle && (uintptr_t)handle > 4096 && handle->magic == magic; }
static int stream_ok(Handle *stream) { return (uintptr_t)stream <= 2 || is(stream, STREAM); }
static CUresult dropped(Handle *handle, unsigned magic) {
    if (!is(handle, magic)) return INVALID_HANDLE;
    handle->magic = 0; /* kept, so that a later use is seen */
    return OK;
}
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

#define GPUS 2 /* of one memory: whose a block is, is not told apart */
static int initialised, context_objects[GPUS], retained, captures;
static unsigned long long numbers; /* of captures */
static __thread void *current;
static __thread int mode; /* of captures: 0 global, 1 of the thread, 2 relaxed */
#define NEED_CONTEXT if (!current) return INVALID_CONTEXT
#define NEED_STREAM(s) if (!stream_ok(s)) return INVALID_HANDLE

static int of_gpu(void *context) { return context >= (void *)context_objects && context < (void *)(context_objects + GPUS); }

static Graph *captured(Handle *stream) { return is(stream, STREAM) ? stream->capture : NULL; }

/* What the driver refuses while a stream is captured, and what makes that capture invalid. */
static Graph *capture_of_all[64];
static CUresult breaks_off(void) {
    if (!captures) return OK;
    for (int i = 0; i < 64; i++)
        if (capture_of_all[i]) capture_of_all[i]->invalid = 1;
    return CAPTURE_UNSUPPORTED;
}
static CUresult forbidden(void) { return mode == 2 ? OK : breaks_off(); }
#define NOT_WHILE_CAPTURED do { CUresult no = forbidden(); if (no) return no; } while (0)

static Command *append(Graph *graph, int kind) {
    Command *made = calloc(1, sizeof(Command));
    made->kind = kind;
    if (graph->last) graph->last->next = made; else graph->first = made;
    return graph->last = made;
}
static CUresult set_launch(Command *node, unsigned long long function, const unsigned *grid, const unsigned *block, unsigned shared,
                           void **parameters) {
    node->function = function, node->shared = shared;
    memcpy(node->grid, grid, sizeof node->grid), memcpy(node->block, block, sizeof node->block);
    void **copy = calloc(256, sizeof(void *));
    size_t offset, size;
    for (node->count = 0; node->count < 256 && python.parameter(function, node->count, &offset, &size) == OK; node->count++)
        copy[node->count] = memcpy(malloc(size ? size : 1), parameters[node->count], size);
    node->parameters = copy;
    return OK;
}
static CUresult fill(CUdeviceptr to, unsigned value, size_t count, size_t width) {
    if (!lies(to, count * width) || to % width) return INVALID_VALUE;
    for (size_t i = 0; i < count * width; i++) ((unsigned char *)to)[i] = value >> 8 * (i % width);
    return OK;
}
static CUresult copied(CUdeviceptr to, CUdeviceptr from, size_t size) {
    if (!lies(to, size) || !lies(from, size)) return INVALID_VALUE;
    memmove((void *)to, (void *)from, size);
    return OK;
}

EXPORT void emulated_callbacks(Callbacks callbacks) { python = callbacks; }
EXPORT CUdeviceptr emulated_take(size_t size) { return take(size); }
EXPORT CUresult emulated_give(CUdeviceptr at) { return give(at); }

EXPORT CUresult cuInit(unsigned flags) { initialised = 1; return ready() ? OK : OUT_OF_MEMORY; }
EXPORT CUresult cuDriverGetVersion(int *version) { *version = 13000; return OK; }
EXPORT CUresult cuGetErrorString(CUresult error, const char **text) { *text = error ? "the emulated driver refuses it" : "no error"; return OK; }
EXPORT CUresult cuGetErrorName(CUresult error, const char **text) { *text = error ? "CUDA_ERROR" : "CUDA_SUCCESS"; return OK; }
EXPORT CUresult cuDeviceGetCount(int *count) { *count = initialised ? GPUS : 0; return initialised ? OK : NOT_INITIALIZED; }
EXPORT CUresult cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal >= GPUS ? 101 : OK; }
EXPORT CUresult cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Emulated GPU", length); return OK; }
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = ARENA_BYTES; return OK; }
EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, int format, unsigned channels, int device) { *width = 1 << 27; return OK; }
EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const int known[][2] = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {9, 65536}, {10, 32},
        {12, 65536}, {13, 1000000}, {14, 512}, {16, 4}, {33, 1}, {36, 1000000}, {37, 512}, {39, 2048}, {51, 32}, {70, 131072}, {71, 65000},
        {72, 2097120}, {75, 9}, {97, 232448}, {115, 1}};
    *value = 0;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i][0] == attribute) *value = known[i][1];
    return OK;
}

EXPORT CUresult cuTexObjectCreate(unsigned long long *texture, const void *resource, const void *sampling, const void *view) {
    static unsigned long long last;
    NEED_CONTEXT; NOT_WHILE_CAPTURED; *texture = ++last; return OK;
}
EXPORT CUresult cuTexObjectDestroy(unsigned long long texture) { NEED_CONTEXT; NOT_WHILE_CAPTURED; return OK; }

EXPORT CUresult cuDevicePrimaryCtxRetain(void **context, int device) { retained++; *context = &context_objects[device]; return OK; }
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(int device) { return retained-- > 0 ? OK : INVALID_CONTEXT; }
EXPORT CUresult cuCtxGetCurrent(void **context) { *context = current; return OK; }
EXPORT CUresult cuCtxSetCurrent(void *context) { current = context; return OK; }
EXPORT CUresult cuCtxSynchronize(void) { NEED_CONTEXT; return breaks_off(); } /* in every mode */

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) { *total = ARENA_BYTES; *free_bytes = ARENA_BYTES - emulated_live_bytes; return OK; }
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t size) { NEED_CONTEXT; NOT_WHILE_CAPTURED; return (*at = take(size)) ? OK : OUT_OF_MEMORY; }
EXPORT CUresult cuMemFree_v2(CUdeviceptr at) { NEED_CONTEXT; NOT_WHILE_CAPTURED; return give(at); }
EXPORT CUresult cuMemPoolCreate(Handle **pool, const void *properties) { NOT_WHILE_CAPTURED; *pool = made(POOL); return OK; }
EXPORT CUresult cuMemPoolDestroy(Handle *pool) { return dropped(pool, POOL); }
EXPORT CUresult cuMemPoolSetAttribute(Handle *pool, int attribute, void *value) { return is(pool, POOL) ? OK : INVALID_HANDLE; }
EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *at, size_t size, Handle *pool, Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (!is(pool, POOL)) return INVALID_HANDLE;
    if (!captured(stream)) NOT_WHILE_CAPTURED;
    *at = take(size);
    if (*at && captured(stream)) {
        if (captured(stream)->memories == 64) return OUT_OF_MEMORY;
        captured(stream)->memory[captured(stream)->memories++] = *at;
    }
    return *at ? OK : OUT_OF_MEMORY;
}
EXPORT CUresult cuMemFreeAsync(CUdeviceptr at, Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (!captured(stream)) NOT_WHILE_CAPTURED;
    return captured(stream) ? lies(at, 1) ? OK : INVALID_VALUE : give(at); /* what a graph has, it has whenever it runs */
}
EXPORT CUresult cuMemHostAlloc(void **at, size_t size, unsigned flags) { NEED_CONTEXT; NOT_WHILE_CAPTURED; *at = malloc(size); return *at ? OK : OUT_OF_MEMORY; }
EXPORT CUresult cuMemFreeHost(void *at) { NOT_WHILE_CAPTURED; free(at); return OK; }

static struct { char *at; size_t size; } locked[64];
EXPORT CUresult cuMemHostRegister_v2(void *at, size_t size, unsigned flags) {
    NEED_CONTEXT; NOT_WHILE_CAPTURED;
    int place = 64;
    for (int i = 63; i >= 0; i--) {
        if (!locked[i].size) place = i;
        else if ((char *)at < locked[i].at + locked[i].size && locked[i].at < (char *)at + size) return INVALID_VALUE;
    }
    if (place == 64 || !size) return INVALID_VALUE;
    locked[place].at = at, locked[place].size = size, emulated_locked_bytes += size;
    return OK;
}
EXPORT CUresult cuMemHostUnregister(void *at) {
    NEED_CONTEXT; NOT_WHILE_CAPTURED;
    for (int i = 0; i < 64; i++)
        if (locked[i].size && locked[i].at == at) { emulated_locked_bytes -= locked[i].size, locked[i].size = 0; return OK; }
    return INVALID_VALUE;
}
EXPORT CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr at) {
    *(int *)value = 0;
    return lies(at, 1) ? OK : INVALID_VALUE;
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (captured(stream)) return captured(stream)->invalid = 1, CAPTURE_UNSUPPORTED; /* of memory that is not pinned */
    if (!lies(to, size)) return INVALID_VALUE;
    memcpy((void *)to, from, size);
    return OK;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (captured(stream)) return captured(stream)->invalid = 1, CAPTURE_UNSUPPORTED;
    if (!lies(from, size)) return INVALID_VALUE;
    memcpy(to, (void *)from, size);
    return OK;
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (captured(stream)) {
        Command *node = append(captured(stream), COPY);
        node->to = to, node->from = from, node->size = size;
        return OK;
    }
    return copied(to, from, size);
}
EXPORT CUresult cuDeviceCanAccessPeer(int *can, int device, int other) { *can = device != other; return OK; }
EXPORT CUresult cuCtxEnablePeerAccess(void *context, unsigned flags) { NEED_CONTEXT; return of_gpu(context) && !flags ? OK : INVALID_VALUE; }
EXPORT CUresult cuMemPoolSetAccess(Handle *pool, const void *access, size_t count) { return is(pool, POOL) && count == 1 ? OK : INVALID_VALUE; }
EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, void *target, CUdeviceptr from, void *source, size_t size, Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (!of_gpu(target) || !of_gpu(source) || captured(stream)) return INVALID_VALUE;
    emulated_peer_copies++;
    return copied(to, from, size);
}
typedef struct { size_t x, y; int kind; const void *host; CUdeviceptr device; void *array; size_t pitch; } End;
typedef struct { End from, to; size_t width, height; } Copy2D;
static char *row_of(const End *end, size_t row, size_t width) { /* of the host's memory, or of the device's, which is there too; else NULL */
    char *at = end->kind == 1 ? (char *)end->host : end->kind == 2 ? (char *)end->device : NULL;
    if (!at || end->pitch < width || (end->kind == 2 && !lies((CUdeviceptr)(at + row * end->pitch), width))) return NULL;
    return at + row * end->pitch;
}
EXPORT CUresult cuMemcpy2DAsync_v2(const Copy2D *what, Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    for (size_t row = 0; row < what->height; row++) {
        char *to = row_of(&what->to, row, what->width), *from = row_of(&what->from, row, what->width);
        if (!to || !from) return INVALID_VALUE;
        memmove(to, from, what->width);
    }
    return OK;
}
#define MEMSET(name, type) \
    EXPORT CUresult name(CUdeviceptr to, type value, size_t count, Handle *stream) { \
        NEED_CONTEXT; NEED_STREAM(stream); \
        if (captured(stream)) { \
            Command *node = append(captured(stream), FILL); \
            node->to = to, node->value = value, node->size = count, node->width = sizeof(type); \
            return OK; \
        } \
        return fill(to, value, count, sizeof(type)); \
    }
MEMSET(cuMemsetD8Async, unsigned char)
MEMSET(cuMemsetD16Async, unsigned short)
MEMSET(cuMemsetD32Async, unsigned)

EXPORT CUresult cuStreamCreate(Handle **stream, unsigned flags) { NEED_CONTEXT; *stream = made(STREAM), (*stream)->context = current; return OK; }
EXPORT CUresult cuStreamDestroy_v2(Handle *stream) { NEED_CONTEXT; return dropped(stream, STREAM); }
EXPORT CUresult cuStreamSynchronize(Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (captured(stream)) return captured(stream)->invalid = 1, CAPTURE_UNSUPPORTED;
    NOT_WHILE_CAPTURED;
    return OK;
}
EXPORT CUresult cuStreamWaitEvent(Handle *stream, Handle *event, unsigned flags) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (!is(event, EVENT)) return INVALID_HANDLE;
    if (captured(stream) != event->capture) { /* a wait across the edge of a capture; joining streams is not emulated */
        if (captured(stream)) captured(stream)->invalid = 1;
        return CAPTURE_ISOLATION;
    }
    return OK;
}
EXPORT CUresult cuStreamIsCapturing(Handle *stream, int *status) { NEED_STREAM(stream); *status = captured(stream) != NULL; return OK; }
EXPORT CUresult cuStreamGetCaptureInfo_v3(Handle *stream, int *status, unsigned long long *number, Graph **graph, const void ***before,
                                          const void **edges, size_t *count) {
    NEED_STREAM(stream);
    *status = !captured(stream) ? 0 : captured(stream)->invalid ? 2 : 1;
    if (number) *number = *status ? captured(stream)->number : 0;
    if (graph) *graph = *status == 1 ? captured(stream) : NULL;
    if (before) *before = NULL;
    if (edges) *edges = NULL;
    if (count) *count = 0;
    return OK;
}
EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *given) {
    int before = mode;
    mode = *given, *given = before;
    return OK;
}
EXPORT CUresult cuStreamBeginCapture_v2(Handle *stream, int how) {
    NEED_CONTEXT;
    if (!is(stream, STREAM) || stream->capture || captures >= 64) return INVALID_VALUE;
    stream->capture = calloc(1, sizeof(Graph));
    stream->capture->magic = GRAPH, stream->capture->number = ++numbers;
    for (int i = 0; i < 64; i++)
        if (!capture_of_all[i]) { capture_of_all[i] = stream->capture; break; }
    captures++;
    return OK;
}
EXPORT CUresult cuStreamEndCapture(Handle *stream, Graph **graph) {
    if (!is(stream, STREAM) || !stream->capture) return INVALID_VALUE;
    *graph = stream->capture, stream->capture = NULL, captures--;
    for (int i = 0; i < 64; i++)
        if (capture_of_all[i] == *graph) capture_of_all[i] = NULL;
    if (!(*graph)->invalid) return OK;
    *graph = NULL;
    return CAPTURE_INVALIDATED;
}

/* Graphs. An instance has commands of its own. */
EXPORT CUresult cuUserObjectCreate(UserObject **object, void *data, void (*destroy)(void *), unsigned users, unsigned flags) {
    NEED_CONTEXT;
    if (users != 1 || flags != 1) return INVALID_VALUE;
    *object = calloc(1, sizeof(UserObject));
    (*object)->destroy = destroy, (*object)->data = data;
    return OK;
}
EXPORT CUresult cuGraphRetainUserObject(Graph *graph, UserObject *object, unsigned count, unsigned flags) {
    if (!graph || graph->magic != GRAPH || count != 1 || flags != 1 || graph->keeps == 64) return INVALID_VALUE; /* a reference is moved */
    object->users++;
    graph->kept[graph->keeps++] = object;
    return OK;
}
static void left(Graph *graph) {
    for (int i = 0; i < graph->keeps; i++)
        if (!--graph->kept[i]->users) graph->kept[i]->destroy(graph->kept[i]->data);
}
typedef struct { unsigned long long func; unsigned grid[3], block[3], shared; void **parameters, **extra; void *kern, *ctx; } KernelNode;
EXPORT CUresult cuGraphCreate(Graph **graph, unsigned flags) {
    NEED_CONTEXT;
    *graph = calloc(1, sizeof(Graph));
    (*graph)->magic = GRAPH;
    return OK;
}
EXPORT CUresult cuGraphAddKernelNode_v2(Command **node, Graph *graph, Command **before, size_t count, const KernelNode *given) {
    if (!graph || graph->magic != GRAPH) return INVALID_VALUE;
    if (count != (graph->last != NULL) || (count && *before != graph->last)) return NOT_SUPPORTED; /* one after another */
    *node = append(graph, LAUNCH);
    return set_launch(*node, given->func, given->grid, given->block, given->shared, given->parameters);
}
EXPORT CUresult cuGraphInstantiateWithFlags(Graph **executable, Graph *graph, unsigned long long flags) {
    NEED_CONTEXT; NOT_WHILE_CAPTURED;
    if (!graph || graph->magic != GRAPH) return INVALID_VALUE;
    *executable = calloc(1, sizeof(Graph));
    (*executable)->magic = EXECUTABLE;
    for (int i = 0; i < graph->keeps; i++) graph->kept[i]->users++, (*executable)->kept[(*executable)->keeps++] = graph->kept[i];
    for (Command *node = graph->first; node; node = node->next) {
        Command *made = append(*executable, node->kind), *next = made->next;
        *made = *node, made->next = next;
        if (node->kind == LAUNCH) set_launch(made, node->function, node->grid, node->block, node->shared, node->parameters);
    }
    return OK;
}
EXPORT CUresult cuGraphLaunch(Graph *executable, Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (!executable || executable->magic != EXECUTABLE) return INVALID_HANDLE;
    if (captured(stream)) return NOT_SUPPORTED; /* a graph within a graph */
    emulated_graphs++;
    CUresult result = OK;
    for (Command *node = executable->first; node && !result && !emulated_quiet; node = node->next)
        result = node->kind == FILL ? fill(node->to, node->value, node->size, node->width)
               : node->kind == COPY ? copied(node->to, node->from, node->size)
               : python.launch(node->function, node->grid, node->block, node->shared, node->parameters);
    return result;
}
EXPORT CUresult cuGraphExecDestroy(Graph *executable) {
    NOT_WHILE_CAPTURED;
    if (!executable || executable->magic != EXECUTABLE) return INVALID_HANDLE;
    executable->magic = 0; /* kept, so that a later use is seen */
    left(executable);
    return OK;
}
EXPORT CUresult cuGraphDestroy(Graph *graph) {
    if (!graph || graph->magic != GRAPH) return INVALID_HANDLE;
    graph->magic = 0;
    left(graph);
    for (int i = 0; i < graph->memories; i++) give(graph->memory[i]);
    return OK;
}
EXPORT CUresult cuEventCreate(Handle **event, unsigned flags) { NEED_CONTEXT; *event = made(EVENT); return OK; }
EXPORT CUresult cuEventDestroy_v2(Handle *event) { NEED_CONTEXT; return dropped(event, EVENT); }
EXPORT CUresult cuEventRecord(Handle *event, Handle *stream) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (!is(event, EVENT)) return INVALID_HANDLE;
    event->seconds = now(), event->recorded = 1, event->capture = captured(stream);
    return OK;
}
static CUresult asked(Handle *event) { return !is(event, EVENT) ? INVALID_HANDLE : event->capture ? CAPTURE_UNSUPPORTED : forbidden(); }
EXPORT CUresult cuEventQuery(Handle *event) { return asked(event); }
EXPORT CUresult cuEventSynchronize(Handle *event) { return asked(event); }
EXPORT CUresult cuEventElapsedTime(float *milliseconds, Handle *begin, Handle *end) {
    if (!is(begin, EVENT) || !is(end, EVENT) || !begin->recorded || !end->recorded) return INVALID_HANDLE;
    *milliseconds = (end->seconds - begin->seconds) * 1e3;
    return OK;
}
EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, Handle *begin, Handle *end) { return cuEventElapsedTime(milliseconds, begin, end); }

EXPORT CUresult cuModuleLoadData(unsigned long long *module, const void *image) { NEED_CONTEXT; return python.load(image, module); }
EXPORT CUresult cuModuleUnload(unsigned long long module) { NEED_CONTEXT; NOT_WHILE_CAPTURED; return OK; }
EXPORT CUresult cuModuleGetFunction(unsigned long long *function, unsigned long long module, const char *name) {
    NEED_CONTEXT;
    return python.function(module, name, function);
}
EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, unsigned long long function) { *value = attribute ? 0 : 1024; return OK; }
EXPORT CUresult cuFuncSetAttribute(unsigned long long function, int attribute, int value) { return OK; }
EXPORT CUresult cuFuncGetParamInfo(unsigned long long function, size_t index, size_t *offset, size_t *size) {
    return python.parameter(function, index, offset, size);
}
EXPORT CUresult cuLaunchKernel(unsigned long long function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned shared, Handle *stream, void **parameters, void **extra) {
    NEED_CONTEXT; NEED_STREAM(stream);
    if (!(gx && gy && gz && bx && by && bz) || (unsigned long long)bx * by * bz > 1024 || shared > 232448 || !parameters) return INVALID_VALUE;
    if (!of_gpu(current) || (is(stream, STREAM) && stream->context != current)) return INVALID_HANDLE; /* another GPU's stream */
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    if (captured(stream)) return set_launch(append(captured(stream), LAUNCH), function, grid, block, shared, parameters);
    __sync_fetch_and_add(&emulated_launches, 1);
    return emulated_quiet ? OK : python.launch(function, grid, block, shared, parameters);
}

typedef struct { int id; char pad[4]; union { char pad[64]; int allowed; } value; } Attribute;
typedef struct { unsigned grid[3], block[3], shared; Handle *stream; Attribute *attributes; unsigned count; } Configuration;
EXPORT CUresult cuLaunchKernelEx(const Configuration *asked, unsigned long long function, void **parameters, void **extra) {
    for (unsigned i = 0; i < asked->count; i++) {
        if (asked->attributes[i].id != 6) return INVALID_VALUE; /* programmatic stream serialization: kernels here run one after the other */
        __sync_fetch_and_add(&emulated_early, asked->attributes[i].value.allowed);
    }
    return cuLaunchKernel(function, asked->grid[0], asked->grid[1], asked->grid[2], asked->block[0], asked->block[1], asked->block[2],
                          asked->shared, asked->stream, parameters, extra);
}

/* The bindings ask for every function by its plain name. */
EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *status) {
    static const char *endings[] = {"", "_v2", "_v3", "WithFlags"};
    void *self = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    *function = NULL;
    for (int i = 3; i >= 0 && !*function; i--) {
        char name[256];
        strncpy(name, symbol, 240);
        name[240] = 0;
        strcat(name, endings[i]);
        *function = dlsym(self, name);
    }
    if (status) *status = *function ? 0 : 1;
    return *function ? OK : NOT_FOUND;
}
EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
