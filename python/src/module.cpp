#include "python.hpp"

NB_MODULE(_native, module) {
  // A thread that runs until the end, or a circle that the interpreter leaves, still has a map then.
  nanobind::set_leak_warnings(false);
  module.attr("version") = ESPALIER_VERSION;
  espalier::python::add_ordered_map(module);
  espalier::python::add_cache(module);
}
