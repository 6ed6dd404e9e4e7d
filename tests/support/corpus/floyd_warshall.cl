/* One pass of all shortest paths, predecessors with them.
   run: floyd_warshall --global 16,16 --local 16,1 16x16=random(1,50) 16x16=0 16 3 */
__kernel void floyd_warshall(__global uint *pathDistanceBuffer, __global uint *pathBuffer, const unsigned int numNodes, const unsigned int pass)
{
  int xValue = get_global_id(0), yValue = get_global_id(1), k = pass;
  int oldWeight = pathDistanceBuffer[yValue * numNodes + xValue];
  int tempWeight = pathDistanceBuffer[yValue * numNodes + k] + pathDistanceBuffer[k * numNodes + xValue];
  if (tempWeight < oldWeight && xValue != k && yValue != k) {
    pathDistanceBuffer[yValue * numNodes + xValue] = tempWeight;
    pathBuffer[yValue * numNodes + xValue] = k;
  }
}
