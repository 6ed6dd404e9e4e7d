/* Rays through a flattened hierarchy of boxes: nested structures and unions behind restrict pointers, flags in the high bit of an index.
   run: bvh_traversal --global 16 --local 8 16=random(-1,1) 16=random(-1,1) 7 16 */
typedef struct { float x, y, z; } Vector;
typedef struct { Vector o, d; float mint, maxt; } Ray;
typedef struct {
  union {
    struct { float bboxMin[3], bboxMax[3]; } bvhNode;
    struct { unsigned int v[3], meshIndex, triangleIndex; } triangleLeaf;
  };
  unsigned int nodeData, pad0;
} BVHArrayNode;
#define BVHNodeData_IsLeaf(nodeData) ((nodeData) & 0x80000000u)
#define BVHNodeData_GetSkipIndex(nodeData) ((nodeData) & 0x7fffffffu)
#define VLOAD3F(p) vload3(0, p)
#define NULL_INDEX (0xffffffffu)
static BVHArrayNode makeNode(const uint index, const uint count)
{
  BVHArrayNode node;
  node.pad0 = 0;
  if (index & 1) {
    node.triangleLeaf.v[0] = index; node.triangleLeaf.v[1] = index * 3u; node.triangleLeaf.v[2] = 7u;
    node.triangleLeaf.meshIndex = index / 2; node.triangleLeaf.triangleIndex = index;
    node.nodeData = 0x80000000u | (index + 1);
  } else {
    const float size = 0.3f + 0.1f * index;
    for (int axis = 0; axis < 3; ++axis) node.bvhNode.bboxMin[axis] = -size, node.bvhNode.bboxMax[axis] = size * (axis + 1) / 3;
    node.nodeData = min(index + 2, count);
  }
  return node;
}
static int BBox_IntersectP(const float3 orig, const float3 inv, const float mint, const float maxt, const float *lo, const float *hi)
{
  const float3 l1 = (VLOAD3F(lo) - orig) * inv, l2 = (VLOAD3F(hi) - orig) * inv;
  const float3 tNear = fmin(l2, l1), tFar = fmax(l2, l1);
  const float t0 = fmax(fmax(fmax(tNear.x, tNear.y), fmax(tNear.x, tNear.z)), mint);
  const float t1 = fmin(fmin(fmin(tFar.x, tFar.y), fmin(tFar.x, tFar.z)), maxt);
  return (t1 > t0);
}
__kernel void bvh_traversal(__global const float4 *restrict origins, __global const float4 *restrict directions, const uint count, __global uint2 *restrict hits)
{
  const size_t gid = get_global_id(0);
  Ray ray = {{origins[gid].x, origins[gid].y, origins[gid].z - 3.0f}, {directions[gid].x * 0.3f, directions[gid].y * 0.3f, 1.0f}, 1e-4f, INFINITY};
  const float3 o = VLOAD3F(&ray.o.x), inv = 1.0f / (float3)(ray.d.x, ray.d.y, ray.d.z);
  uint currentNode = 0, hit = NULL_INDEX, visited = 0;
  while (currentNode < count) {
    const BVHArrayNode node = makeNode(currentNode, count);
    visited++;
    if (BVHNodeData_IsLeaf(node.nodeData)) {
      hit = node.triangleLeaf.meshIndex + (node.triangleLeaf.v[1] << 8) + (hit == NULL_INDEX ? 0 : hit);
      ++currentNode;
    } else
      currentNode = BBox_IntersectP(o, inv, ray.mint, ray.maxt, node.bvhNode.bboxMin, node.bvhNode.bboxMax) ? currentNode + 1 : BVHNodeData_GetSkipIndex(node.nodeData);
  }
  hits[gid] = (uint2)(hit, visited);
}
