/* Edit distances of words against a dictionary: rows of characters in private arrays, min of three, strings as vectors of bytes.
   run: edit_distance --global 16 --local 8 256=random(97,100) 97,98,99,97,98,99,97,98,99,97,98,99,97,98,99,97 16 12 */
#define LEN 16
uchar min3(uchar a, uchar b, uchar c) { return min(min(a, b), c); }
__kernel void edit_distance(__global const char *dictionary, char16 word, __global int *distance, const uchar length)
{
  const size_t id = get_global_id(0);
  __global const char *other = dictionary + id * LEN;
  char mine[LEN];
  vstore16(word, 0, mine);
  uchar row[LEN + 1], left, corner;
  for (int j = 0; j <= length; ++j) row[j] = j;
  for (int i = 1; i <= length; i++) {
    corner = row[0], row[0] = left = i;
    for (int j = 1; j <= length; j++) {
      uchar up = row[j];
      left = row[j] = min3(left + 1, up + 1, corner + (mine[j - 1] != other[i - 1]));
      corner = up;
    }
  }
  char16 same = (vload16(id, dictionary) == word);
  distance[id] = row[length] + 1000 * -(same.s0 + same.s5 + same.sa + same.sF) + (any(same.lo) ? 100 : 0);
}
