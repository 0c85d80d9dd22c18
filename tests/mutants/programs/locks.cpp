// Locks exclude other threads, admit each at last, and refuse only while a thread holds them.

#include <string>

#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "mutants/driver.hpp"
#include "scheduled/lock_scenes.hpp"

namespace espalier::mutants {
namespace {

template <class Lock>
void both(scenes& all, const std::string& name) {
  all.run(name + " excludes", sim::mutual_exclusion<Lock, 3, 2>);
  all.run(name + " tries", sim::tries_beside_lock<Lock, 2>);
}

}  // namespace

void explore_all(scenes& all) {
  both<ttas_lock>(all, "ttas_lock");
  both<ticket_lock>(all, "ticket_lock");
  both<mcs_lock>(all, "mcs_lock");
}

}  // namespace espalier::mutants
