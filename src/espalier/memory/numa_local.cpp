#include "espalier/memory/numa_local.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <stdexcept>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"

namespace espalier {
namespace {

/// Whether this process may bind pages to a node.
bool can_bind_to(unsigned os_index) {
  try {
    hw::page_options options;
    options.numa_node = os_index;
    return hw::map_pages(1, options).bound_numa_node().has_value();
  } catch (const std::invalid_argument&) {  // it has no such node
    return false;
  }
}

}  // namespace

numa_local::numa_local(const hw::topology& machine, cpu_function current_cpu)
    : current_cpu_(std::move(current_cpu)) {
  const bool binds = machine.is_this_machine() && machine.numa_nodes().size() > 1;
  bool all = true;
  std::map<unsigned, std::uint32_t> index_of;
  for (const hw::topology::numa_node& n : machine.numa_nodes()) {
    if (n.pus.empty()) continue;  // no thread runs there
    index_of[n.os_index] = static_cast<std::uint32_t>(nodes_.size());
    const bool bind = binds && can_bind_to(n.os_index);
    all = all && bind;
    nodes_.emplace_back(n.os_index, bind ? std::optional(n.os_index) : std::nullopt);
  }
  if (nodes_.empty()) nodes_.emplace_back(0U, std::nullopt);
  for (const hw::topology::pu& p : machine.pus()) {
    if (node_of_cpu_.size() <= p.os_index) node_of_cpu_.resize(p.os_index + 1);
    if (p.numa_node && index_of.contains(*p.numa_node)) node_of_cpu_[p.os_index] = index_of[*p.numa_node];
  }
  if (nodes_.size() == 1)
    binding_ = page_binding::one_node;
  else if (!machine.is_this_machine())
    binding_ = page_binding::elsewhere;
  else
    binding_ = all ? page_binding::bound : page_binding::forbidden;
}

std::size_t numa_local::current_node() const noexcept {
  if (nodes_.size() == 1) return 0;
  const std::optional<unsigned> cpu = current_cpu_();
  return cpu && *cpu < node_of_cpu_.size() ? node_of_cpu_[*cpu] : 0;
}

void* numa_local::allocate(const block& b, const void*) {
  const std::size_t here = current_node();
  node_memory& of_node = nodes_[here];
  if (!size_class::has(b.bytes, b.align)) [[unlikely]] {
    void* const memory = of_node.large.allocate(b.bytes, std::max(b.align, hw::cache_line_bytes));
    ::new (of_node.large.front_of(memory)) std::size_t(here);
    return memory;
  }
  return slab_in(of_node, b)
      .get_or_make(size_class::bytes_for(b.bytes, b.align), slab::side_table::none, of_node.bound_to)
      .allocate();
}

std::size_t numa_local::home_of(const void* memory, const block& b) const noexcept {
  if (nodes_.size() == 1) return 0;
  if (!size_class::has(b.bytes, b.align))
    return *static_cast<const std::size_t*>(nodes_.front().large.front_of(memory));
  const auto holds = [&](std::size_t node) {
    const slab* const s = slab_in(nodes_[node], b).get();
    return s != nullptr && s->holds(memory);
  };
  // Most blocks are freed on the node that they were allocated on.
  const std::size_t here = current_node();
  if (holds(here)) return here;
  std::size_t node = 0;
  while (node + 1 < nodes_.size() && !holds(node)) ++node;
  return node;
}

void numa_local::deallocate(void* memory, const block& b) noexcept {
  node_memory& home = nodes_[home_of(memory, b)];
  if (!size_class::has(b.bytes, b.align)) return home.large.deallocate(memory);
  slab_in(home, b).get()->deallocate(memory);
}

unsigned numa_local::numa_node_of(const void* memory, const block& b) const noexcept {
  return nodes_[home_of(memory, b)].os_index;
}

std::size_t numa_local::bytes_held(const void* memory, const block& b) const noexcept {
  return size_class::has(b.bytes, b.align) ? size_class::bytes_for(b.bytes, b.align)
                                           : nodes_.front().large.block_bytes(memory);
}

memory_usage numa_local::usage() const noexcept {
  memory_usage sum;
  for (const node_memory& n : nodes_) {
    sum += n.large.usage();
    for (const auto& of_role : n.slabs) {
      for (const made_once<slab>& s : of_role) {
        if (const slab* const one = s.get()) sum += one->usage();
      }
    }
  }
  return sum;
}

}  // namespace espalier
