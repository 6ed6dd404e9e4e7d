/* One level of breadth-first search over an edge list by node structures.
   run: bfs --global 16 --local 16 int:32=2 48=random(0,16) 16=random(0,2) 16 16=random(0,2) 16=0 16 */
typedef struct {
  int starting;
  int no_of_edges;
} Node;
__kernel void bfs(__global const Node *g_graph_nodes, __global const int *g_graph_edges, __global char *g_graph_mask,
                  __global char *g_updating_graph_mask, __global char *g_graph_visited, __global int *g_cost, const int no_of_nodes)
{
  int tid = get_global_id(0);
  if (tid < no_of_nodes && g_graph_mask[tid]) {
    g_graph_mask[tid] = false;
    for (int i = g_graph_nodes[tid].starting; i < (g_graph_nodes[tid].no_of_edges + g_graph_nodes[tid].starting); i++) {
      int id = g_graph_edges[i];
      if (!g_graph_visited[id]) {
        g_cost[id] = 1;
        g_updating_graph_mask[id] = true;
      }
    }
  }
}
