/* Distances of records of two floats.
   run: nearest_neighbor --global 32 --local 32 float:64=random(0,90) 32 30 30.5 60.25 */
typedef struct latLong {
  float lat;
  float lng;
} LatLong;
__kernel void nearest_neighbor(__global LatLong *d_locations, __global float *d_distances, const int numRecords, const float lat, const float lng)
{
  int globalId = get_global_id(0);
  if (globalId < numRecords) {
    __global LatLong *latLong = d_locations + globalId;
    __global float *dist = d_distances + globalId;
    *dist = (float)sqrt((lat - latLong->lat) * (lat - latLong->lat) + (lng - latLong->lng) * (lng - latLong->lng));
  }
}
