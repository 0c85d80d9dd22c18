// Sections of an elided lock exclude one another, whichever way each of them runs, and each runs once.

#include "espalier/sync/elided_lock.hpp"

#include "espalier/sync/ttas_lock.hpp"
#include "mutants/driver.hpp"
#include "scheduled/elided_lock_scenes.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  all.run("elided and plain sections", sim::elided_and_plain_sections<ttas_lock>);
  all.run("reader of a pair", sim::elided_reader_of_a_pair<ttas_lock>);
  all.run("writer through an index", sim::elided_writer_through_an_index<ttas_lock>);
  all.run("nested sections", sim::nested_elided_sections<ttas_lock>);
  all.run("counter", sim::linearizable_elided_counter<ttas_lock>);
}

}  // namespace espalier::mutants
