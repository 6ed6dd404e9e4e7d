/* Images of OpenCL C in CUDA C++: memory and, of two dimensions, a point-sampled texture for reading; the sampler in software.

   The host passes the structure by value. The texture takes whole coordinates and gives 0 outside. An image over a buffer is one row,
   which its texture shows from ``slice`` pixels on: textures begin at aligned addresses, buffers anywhere. Every other image is read
   from memory, where a texture would need arrays that kernels cannot write to. ``channels`` has in its bytes, from the lowest: the number
   of channels, the bytes of one, and their kind (1 floating point, 2 signed, 3 unsigned; 4 unsigned and 5 signed, seen as fractions). */
namespace ocl {
typedef uint sampler_t;
// ``extents`` dimensions have coordinates that a sampler works on; one more selects a layer of an array.
#define IMAGE(name, e, l, ...) \
  struct name { enum { extents = e, layered = l }; ulong texture, data; int width, height, pitch, channels; __VA_ARGS__ };
IMAGE(image2d_t, 2, 0, )
IMAGE(image1d_t, 1, 0, int depth; uint slice;)
IMAGE(image1d_buffer_t, 1, 0, int depth; uint slice;)
IMAGE(image1d_array_t, 1, 1, int depth; uint slice;)
IMAGE(image2d_array_t, 2, 1, int depth; uint slice;)
IMAGE(image3d_t, 3, 0, int depth; uint slice;)
template <class M> concept portatile_image = M::extents > 0;
template <portatile_image M> INLINE int portatile_extent(const M &image, int d) {
  if constexpr (M::extents == 3) { if (d == 2) return image.depth; }
  return d == 0 ? image.width : image.height;
}

template <integer I> INLINE vec<int, 4> portatile_coordinates(I at) { return vec<int, 4>(int(at), 0, 0, 0); }
template <floating F> INLINE vec<float, 4> portatile_coordinates(F at) { return vec<float, 4>(float(at), 0.0f, 0.0f, 0.0f); }
template <class C> INLINE vec<C, 4> portatile_coordinates(vec<C, 2> at) { return vec<C, 4>(at.x, at.y, C(0), C(0)); }
template <class C> INLINE vec<C, 4> portatile_coordinates(vec<C, 4> at) { return at; }

// Where a pixel lies, or null outside. The first coordinates are the image's own, the one behind them selects a layer.
template <portatile_image M> INLINE char *portatile_pixel(const M &image, vec<int, 4> at) {
  for (int d = 0; d < M::extents; d++) if (uint(at[d]) >= uint(portatile_extent(image, d))) return nullptr;
  char *row = (char *)image.data;
  if constexpr (M::extents > 1) row += size_t(at.y) * size_t(image.pitch);
  if constexpr (M::extents + M::layered > 2 || M::layered) {
    int layer = at[M::extents + M::layered - 1];
    if (uint(layer) >= uint(image.depth)) return nullptr;
    row += size_t(layer) * size_t(image.slice);
  }
  return row + size_t(at.x) * size_t((image.channels & 255) * (image.channels >> 8 & 255));
}
// One channel of the pixel at p as a kernel sees it, and as it is stored.
template <class T> INLINE T portatile_channel(const char *p, int c, int channels) {
  int width = channels >> 8 & 255, kind = channels >> 16;
  if (width == 4) return ((const T *)p)[c];
  uint bits = width == 2 ? ((const ushort *)p)[c] : ((const uchar *)p)[c];
  int number = kind & 1 ? int(bits) : width == 2 ? int(short(bits)) : int((signed char)bits);
  if constexpr (equal<T, float>) {
    if (kind == 1) {
      float f;
      asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(ushort(bits)));
      return f;
    }
    if (kind == 4) return float(bits) / (width == 2 ? 65535.0f : 255.0f);
    return fmax(float(number) / (width == 2 ? 32767.0f : 127.0f), -1.0f);
  } else return T(number);
}
template <class T> INLINE void portatile_store(char *p, int c, int channels, T value) {
  int width = channels >> 8 & 255, kind = channels >> 16;
  if (width == 4) {
    ((T *)p)[c] = value;
    return;
  }
  uint bits = 0;
  if constexpr (equal<T, float>) {
    if (kind == 1) {
      ushort half;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
      bits = half;
    } else {
      float most = kind == 4 ? (width == 2 ? 65535.0f : 255.0f) : (width == 2 ? 32767.0f : 127.0f);
      bits = uint(int(rint(fmin(fmax(value * most, kind == 4 ? 0.0f : -most - 1.0f), most))));
    }
  } else {
    int most = width == 2 ? 65535 : 255;
    if constexpr (T(-1) < T(0)) bits = uint(::min(::max(value, -(most >> 1) - 1), most >> 1));
    else bits = ::min(value, uint(most));
  }
  if (width == 2) ((ushort *)p)[c] = ushort(bits);
  else ((uchar *)p)[c] = uchar(bits);
}

#define TEXTURE(kind, letter) \
  asm("tex.2d.v4." kind ".s32 {%0, %1, %2, %3}, [%4, {%5, %6}];" \
      : letter(v.x), letter(v.y), letter(v.z), letter(v.w) : "l"(image.texture), "r"(at.x), "r"(at.y))
#define ROW_TEXTURE(kind, letter) \
  asm("tex.1d.v4." kind ".s32 {%0, %1, %2, %3}, [%4, {%5}];" \
      : letter(v.x), letter(v.y), letter(v.z), letter(v.w) : "l"(image.texture), "r"(at.x + int(image.slice)))
#define FETCH(T, kind, letter) template <portatile_image M> INLINE vec<T, 4> portatile_fetch(const M &image, vec<int, 4> at, T) { \
  vec<T, 4> v; \
  int channels = image.channels & 255; \
  if constexpr (equal<M, image2d_t>) TEXTURE(kind, letter); \
  else if constexpr (equal<M, image1d_buffer_t>) ROW_TEXTURE(kind, letter); \
  else { \
    const char *p = portatile_pixel(image, at); \
    v = vec<T, 4>(T(0)); \
    if (p && (image.channels & 65535) == 0x404) v = *(const vec<T, 4> *)p; \
    else if (p) for (int c = 0; c < channels; c++) v[c] = portatile_channel<T>(p, c, image.channels); \
  } \
  if (channels < 2) v.y = 0; \
  if (channels < 3) v.z = 0; \
  if (channels < 4) v.w = 1; \
  return v; }
FETCH(float, "f32", "=f") FETCH(int, "s32", "=r") FETCH(uint, "u32", "=r")

// One coordinate: where a sampler of that addressing mode looks, for nearest sampling.
INLINE int portatile_place(sampler_t s, float u, int extent) {
  uint mode = s & 14;
  if (mode == 6) {
    int i = int(floor((u - floor(u)) * extent));
    return i > extent - 1 ? i - extent : i;
  }
  if (mode == 8) return ::min(int(floor(fabs(u - 2 * rint(0.5f * u)) * extent)), extent - 1);
  int i = int(floor(s & 1 ? u * extent : u));
  return mode == 2 ? ::min(::max(i, 0), extent - 1) : i;
}
// Both neighbours of one coordinate and the weight of the second, for linear sampling.
struct portatile_span { int first, second; float weight; };
INLINE portatile_span portatile_neighbours(sampler_t s, float u, int extent) {
  uint mode = s & 14;
  if (mode == 6) u = (u - floor(u)) * extent;
  else if (mode == 8) u = fabs(u - 2 * rint(0.5f * u)) * extent;
  else if (s & 1) u *= extent;
  float low = floor(u - 0.5f);
  portatile_span p = {int(low), int(low) + 1, u - 0.5f - low};
  if (mode == 6) {
    if (p.first < 0) p.first += extent;
    if (p.second > extent - 1) p.second -= extent;
  } else if (mode == 8 || mode == 2) {
    p.first = ::max(p.first, 0);
    p.second = ::min(p.second, extent - 1);
    if (mode == 2) {
      p.first = ::min(p.first, extent - 1);
      p.second = ::max(p.second, 0);
    }
  }
  return p;
}
// The mean over dimension d and those below, at fixed coordinates in the others.
template <int d, class T, class M> INLINE vec<T, 4> portatile_mean(const M &image, const portatile_span *spans, vec<int, 4> at) {
  if constexpr (d < 0) return portatile_fetch(image, at, T());
  else {
    at[d] = spans[d].first;
    vec<T, 4> a = portatile_mean<d - 1, T>(image, spans, at);
    at[d] = spans[d].second;
    return mix(a, portatile_mean<d - 1, T>(image, spans, at), spans[d].weight);
  }
}
template <class T, class M> INLINE vec<T, 4> portatile_sample(const M &image, sampler_t s, vec<int, 4> at) {
  if ((s & 14) == 2) {
    for (int d = 0; d < M::extents; d++) at[d] = ::min(::max(at[d], 0), portatile_extent(image, d) - 1);
  }
  if constexpr (M::layered) at[M::extents] = ::min(::max(at[M::extents], 0), image.depth - 1);
  return portatile_fetch(image, at, T());
}
template <class T, class M> INLINE vec<T, 4> portatile_sample(const M &image, sampler_t s, vec<float, 4> at) {
  vec<int, 4> whole(0);
  if constexpr (M::layered) whole[M::extents] = ::min(::max(int(rint(at[M::extents])), 0), image.depth - 1);
  if constexpr (equal<T, float>) {
    if (s & 16) {
      portatile_span spans[M::extents];
      for (int d = 0; d < M::extents; d++) spans[d] = portatile_neighbours(s, at[d], portatile_extent(image, d));
      return portatile_mean<M::extents - 1, T>(image, spans, whole);
    }
  }
  for (int d = 0; d < M::extents; d++) whole[d] = portatile_place(s, at[d], portatile_extent(image, d));
  return portatile_fetch(image, whole, T());
}
#define READ(name, T) \
  template <portatile_image M, class C> INLINE vec<T, 4> name(const M &image, sampler_t s, C at) { \
    return portatile_sample<T>(image, s, portatile_coordinates(at)); } \
  template <portatile_image M, class C> INLINE vec<T, 4> name(const M &image, C at) { \
    return portatile_fetch(image, portatile_coordinates(at), T()); }
READ(read_imagef, float) READ(read_imagei, int) READ(read_imageui, uint)
// Of cl_khr_fp16; ``half`` is known only to texts that name it.
template <class H = half, class... A> INLINE auto read_imageh(A... a) {
  return lanes<4>::each([](float e) { return H(e); }, read_imagef(a...));
}

template <class T, class M> INLINE void portatile_put(const M &image, vec<int, 4> at, vec<T, 4> v) {
  char *p = portatile_pixel(image, at);
  if (!p) return;
  if ((image.channels & 65535) == 0x404) *(vec<T, 4> *)p = v;
  else for (int c = 0; c < (image.channels & 255); c++) portatile_store(p, c, image.channels, v[c]);
}
#define WRITE(name, T) template <portatile_image M, class C> INLINE void name(const M &image, C at, vec<T, 4> v) { \
  portatile_put(image, portatile_coordinates(at), v); }
WRITE(write_imagef, float) WRITE(write_imagei, int) WRITE(write_imageui, uint)
template <portatile_image M, class C, class H> INLINE void write_imageh(const M &image, C at, vec<H, 4> v) {
  write_imagef(image, at, lanes<4>::each([](H e) { return float(e); }, v));
}

template <portatile_image M> INLINE int get_image_width(const M &image) { return image.width; }
template <portatile_image M> INLINE int get_image_height(const M &image) { return image.height; }
template <portatile_image M> INLINE int get_image_depth(const M &image) { return image.depth; }
template <portatile_image M> INLINE size_t get_image_array_size(const M &image) { return image.depth; }
template <portatile_image M> INLINE auto get_image_dim(const M &image) {
  if constexpr (M::extents == 3) return vec<int, 4>(image.width, image.height, image.depth, 0);
  else return vec<int, 2>(image.width, image.height);
}
// CLK_R, CLK_RG and CLK_RGBA; CLK_HALF_FLOAT and CLK_FLOAT, the integers from CLK_SIGNED_INT8 on, or the fractions from CLK_SNORM_INT8 on.
template <portatile_image M> INLINE int get_image_channel_order(const M &image) {
  int channels = image.channels & 255;
  return channels == 1 ? 0x10b0 : channels == 2 ? 0x10b2 : 0x10b5;
}
template <portatile_image M> INLINE int get_image_channel_data_type(const M &image) {
  int width = image.channels >> 8 & 255, kind = image.channels >> 16;
  if (kind > 3) return (kind == 5 ? 0x10d0 : 0x10d2) + (width >> 1);
  return kind == 1 ? (width == 2 ? 0x10dd : 0x10de) : (kind == 2 ? 0x10d7 : 0x10da) + (width >> 1);
}
}  // namespace ocl
