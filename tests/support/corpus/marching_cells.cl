/* Cells of a volume sorted into their sixteen cases: field functions on vectors, comparisons as bits, a table of two dimensions.
   run: marching_cells --global 32 --local 16 32 32 4,2,4,0 1.1
*/
__constant uchar numVerts[16] = {0, 3, 3, 6, 3, 6, 6, 9, 3, 6, 6, 9, 6, 9, 9, 3};
__constant uchar edges[4][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
int4 calcGridPos(uint i, int4 size) { return (int4)(i % size.x, i / size.x % size.y, i / (size.x * size.y), 0); }
float tangle(float x, float y, float z)
{
  x *= 3.0f; y *= 3.0f; z *= 3.0f;
  return (x * x * x * x - 5.0f * x * x + y * y * y * y - 5.0f * y * y + z * z * z * z - 5.0f * z * z + 11.8f) * 0.2f + 0.5f;
}
__kernel void marching_cells(__global uint *voxelVerts, __global uint *voxelOccupied, const int4 gridSize, const float iso)
{
  uint i = get_global_id(0);
  int4 pos = calcGridPos(i, gridSize);
  float4 p = convert_float4(pos) / convert_float4(max(gridSize, 1)) - (float4)0.5f;
  float field[4];
  for (int c = 0; c < 4; c++) field[c] = tangle(p.x + (c & 1) * 0.25f, p.y + (c >> 1) * 0.25f, p.z);
  uint cube;
  cube = (uint)(field[0] < iso);
  cube += (uint)(field[1] < iso) * 2;
  cube += (uint)(field[2] < iso) << 2 | (uint)(field[3] < iso) << 3;
  uint crossing = 0;
  for (int e = 0; e < 4; ++e) crossing |= ((cube >> edges[e][0] & 1) != (cube >> edges[e][1] & 1)) << e;
  voxelVerts[i] = numVerts[cube] + 100 * crossing;
  voxelOccupied[i] = numVerts[cube] > 0;
}
