{# the 16 bytes at offset `skew` in two consecutive chunks of 16 bytes; `skew` is a multiple of `word`, which is 1, 4 or 8 #}
static inline uint4 shifted(uint4 low, uint4 high, const int skew, const int word)
{
    if (skew & 8) {
        low = (uint4)(low.z, low.w, high.x, high.y);
        high.x = high.z;
        high.y = high.w;
    }
    if (word < 8 && skew & 4) {
        low = (uint4)(low.y, low.z, low.w, high.x);
        high.x = high.y;
    }
    if (word >= 4)
        return low;
    const int by = (skew & 3) * 8;
    return (uint4)((uint)(((ulong)low.y << 32 | low.x) >> by), (uint)(((ulong)low.z << 32 | low.y) >> by),
                   (uint)(((ulong)low.w << 32 | low.z) >> by), (uint)(((ulong)high.x << 32 | low.w) >> by));
}
