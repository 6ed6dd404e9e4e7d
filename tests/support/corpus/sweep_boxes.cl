/* Overlapping boxes along one axis: unions of a vector and its last word, pairs appended by an atomic counter, loops that end early.
   run: sweep_boxes --global 16 --local 16 float:128=random(0,3) 1=0 32 16 16 0 */
typedef struct {
  union { float4 m_min; float m_minElems[4]; int m_minIndices[4]; };
  union { float4 m_max; float m_maxElems[4]; int m_maxIndices[4]; };
} Box;
bool TestAabb(const Box *aabb1, __global const Box *aabb2)
{
  bool overlap = true;
  overlap = (aabb1->m_min.x > aabb2->m_max.x + 2 || aabb1->m_max.x + 2 < aabb2->m_min.x) ? false : overlap;
  overlap = (aabb1->m_min.z > aabb2->m_max.z + 1 || aabb1->m_max.z + 1 < aabb2->m_min.z) ? false : overlap;
  return overlap;
}
__kernel void sweep_boxes(__global const Box *aabbs, volatile __global int *pairCount, __global int *degree, int numObjects, int maxPairs, int axis)
{
  int i = get_global_id(0);
  if (i >= numObjects) return;
  Box me = aabbs[i];
  int found = 0;
  for (int j = 0; j < numObjects; j++) {
    if (j == i) continue;
    if (me.m_maxElems[axis] < aabbs[j].m_minElems[axis] - 1.0f) continue;
    if (TestAabb(&me, &aabbs[j])) {
      if (j > i) atomic_inc(pairCount);
      if (++found == maxPairs) break;
    }
  }
  degree[2 * i] = found;
  degree[2 * i + 1] = me.m_minIndices[axis] & 0x7fffff;
}
