#include "python.hpp"

NB_MODULE(_native, module) {
  module.attr("version") = ESPALIER_VERSION;
  espalier::python::add_ordered_map(module);
  espalier::python::add_cache(module);
}
