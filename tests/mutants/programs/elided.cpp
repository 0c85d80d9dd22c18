// Sections of an elided lock exclude one another, whichever way each of them runs, each runs once, and attempts are bounded.

#include "espalier/sync/elided_lock.hpp"

#include "espalier/sync/ttas_lock.hpp"
#include "mutants/driver.hpp"
#include "scheduled/elided_lock_scenes.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  all.run("elided and plain sections", sim::elided_and_plain_sections<ttas_lock>);
  all.run("reader of a pair", sim::elided_reader_of_a_pair<ttas_lock>);
  all.run("writer through an index", sim::elided_writer_through_an_index<ttas_lock>);
  all.run("looks before attempts", sim::attempts_begin_where_the_lock_looks_free);
  all.run("learnt fallbacks", sim::fallbacks_are_learnt);
  all.run("held inner lock", sim::an_inner_lock_is_waited_for);
  all.run("nested sections", sim::nested_elided_sections<ttas_lock>);
  all.run("counter", sim::linearizable_elided_counter<ttas_lock>);
}

}  // namespace espalier::mutants
