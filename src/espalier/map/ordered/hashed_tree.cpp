#include "espalier/map/ordered/hashed_tree.hpp"

namespace espalier::btree {

template struct hashed_leaf<std::uint64_t, 128>;
template struct hashed_leaf<std::uint64_t, 256>;
template class hashed_nodes<std::uint64_t, fanout<256>>;
template class tree_changes<hashed_changes<node_store<btree_traits>, std::uint64_t, fanout<256>>,
                            node_store<btree_traits>, hashed_nodes<std::uint64_t, fanout<256>>>;
template class hashed_changes<node_store<btree_traits>, std::uint64_t, fanout<256>>;

}  // namespace espalier::btree
