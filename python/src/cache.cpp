#include "espalier/cache/cache.hpp"

#include <nanobind/stl/optional.h>

#include <chrono>
#include <cmath>
#include <stdexcept>

#include "python.hpp"

// The cache for Python. Single calls keep the interpreter lock, and those with many keys release it.

namespace espalier::python {
namespace {

namespace nb = nanobind;

using bytes_cache = cache<std::string, std::string>;

class cache_object {
 public:
  cache_object(std::size_t max_bytes, nb::handle ttl, std::optional<std::size_t> largest_entry, bool evicts)
      : cache_(options(max_bytes, largest_entry, evicts)), lives_(seconds(ttl, bytes_cache::forever)) {}

  [[nodiscard]] nb::object get(nb::handle key, nb::handle otherwise) {
    nb::object found;
    cache_.get(read(key), [&](std::string_view value) { found = made(value); });
    return found.is_valid() ? found : nb::borrow(otherwise);
  }
  bool set(nb::handle key, nb::handle value, nb::handle ttl) {
    return cache_.set(read(key), read(value), lifetime(ttl));
  }
  bool add(nb::handle key, nb::handle value, nb::handle ttl) {
    return cache_.add(read(key), read(value), lifetime(ttl));
  }
  bool erase(nb::handle key) { return cache_.erase(read(key)); }
  bool touch(nb::handle key, nb::handle ttl) { return cache_.touch(read(key), lifetime(ttl)); }
  bool contains(nb::handle key) { return cache_.contains(read(key)); }
  void clear() {
    const without_interpreter_lock without_lock;
    cache_.clear();
  }

  nb::object get_or_set(nb::handle key, nb::handle make, nb::handle ttl) {
    const std::string_view k = read(key);
    const auto lives = lifetime(ttl);
    std::string value;
    {
      // Others wait for the value that one thread makes.
      const without_interpreter_lock without_lock;
      value = cache_.get_or_set(
          k,
          [&] {
            const with_interpreter_lock with_lock;
            return std::string(read(nb::steal(PyObject_CallNoArgs(make.ptr()))));
          },
          lives);
    }
    return made(value);
  }

  nb::dict get_many(nb::handle keys) {
    const nb::object all = nb::steal(PySequence_Tuple(keys.ptr()));
    if (!all.is_valid()) nb::raise_python_error();
    const elements<byte_strings> views(all);
    std::vector<std::optional<std::string>> found(views.size());
    {
      const without_interpreter_lock without_lock;
      for (std::size_t i = 0; i != found.size(); ++i) found[i] = cache_.get(views.data()[i]);
    }
    nb::dict result;
    for (std::size_t i = 0; i != found.size(); ++i)
      if (found[i]) result[all[i]] = made(*found[i]);
    return result;
  }
  /// How many were stored.
  std::size_t set_many(const nb::dict& entries, nb::handle ttl) {
    // At one moment: the garbage collector, which runs where a list is made, may change the dict.
    const nb::list items = entries.items();
    std::vector<std::pair<std::string_view, std::string_view>> views;
    views.reserve(items.size());
    for (const nb::handle item : items)
      views.emplace_back(read(PyTuple_GetItem(item.ptr(), 0)), read(PyTuple_GetItem(item.ptr(), 1)));
    const auto lives = lifetime(ttl);
    const without_interpreter_lock without_lock;
    std::size_t stored = 0;
    for (const auto& [key, value] : views)
      if (cache_.set(key, value, lives)) ++stored;
    return stored;
  }

  [[nodiscard]] std::uint64_t size() const { return cache_.statistics().entries; }
  [[nodiscard]] nb::dict statistics() const {
    const cache_statistics now = cache_.statistics();
    nb::dict all;
    all["entries"] = now.entries;
    all["entry_bytes"] = now.entry_bytes;
    all["used_bytes"] = now.used_bytes;
    all["stored"] = now.stored;
    all["evictions"] = now.evictions;
    all["expired"] = now.expired;
    return all;
  }

 private:
  static std::string_view read(nb::handle bytes) {
    const auto view = bytes.is_valid() ? byte_strings::read(bytes.ptr()) : std::nullopt;
    if (!view) nb::raise_python_error();
    return *view;
  }
  static nb::object made(std::string_view bytes) {
    nb::object result = nb::steal(byte_strings::make(bytes));
    if (!result.is_valid()) nb::raise_python_error();
    return result;
  }
  static std::chrono::milliseconds seconds(nb::handle ttl, std::chrono::milliseconds otherwise) {
    if (ttl.is_none()) return otherwise;
    const double given = PyFloat_AsDouble(ttl.ptr());
    if (PyErr_Occurred() != nullptr) nb::raise_python_error();
    if (!(given > 0)) throw nb::value_error("a time to live is more than 0 seconds");
    return bytes_cache::lifetime(std::chrono::duration<double>(given)).time;
  }
  [[nodiscard]] std::chrono::milliseconds lifetime(nb::handle ttl) const { return seconds(ttl, lives_); }
  static cache_options options(std::size_t max_bytes, std::optional<std::size_t> largest_entry, bool evicts) {
    cache_options chosen;
    chosen.memory_limit = max_bytes;
    chosen.largest_entry = largest_entry.value_or(std::min(chosen.largest_entry, max_bytes / 2));
    chosen.evicts = evicts;
    return chosen;
  }

  bytes_cache cache_;
  std::chrono::milliseconds lives_;
};

}  // namespace

void add_cache(nb::module_& module) {
  using nb::arg;
  const auto ttl = arg("ttl").none() = nb::none();
  nb::class_<cache_object>(module, "Cache", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](cache_object* self, std::size_t max_bytes, nb::handle lives, std::optional<std::size_t> largest,
             bool evicts) { new (self) cache_object(max_bytes, lives, largest, evicts); },
          arg("max_bytes") = std::size_t{64} << 20U, nb::kw_only(), ttl,
          arg("largest_entry").none() = nb::none(), arg("evicts") = true)
      .def("get", &cache_object::get, arg("key"), arg("default").none() = nb::none())
      .def("set", &cache_object::set, arg("key"), arg("value"), ttl)
      .def("add", &cache_object::add, arg("key"), arg("value"), ttl)
      .def("delete", &cache_object::erase, arg("key"))
      .def("touch", &cache_object::touch, arg("key"), ttl)
      .def("get_or_set", &cache_object::get_or_set, arg("key"), arg("make"), ttl)
      .def("get_many", &cache_object::get_many, arg("keys"))
      .def("set_many", &cache_object::set_many, arg("entries"), ttl)
      .def("clear", &cache_object::clear)
      .def("statistics", &cache_object::statistics)
      .def("__contains__", &cache_object::contains)
      .def("__len__", &cache_object::size);
}

}  // namespace espalier::python
