#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <variant>

#include "espalier/ordered_map.hpp"
#include "python.hpp"

// ordered_map for Python: keys are integers or byte strings, values these or any object.
//
// Threads. Maps of integers and byte strings are changed with the interpreter lock and without it: batches release it. Maps of
// objects are used with it alone, for their values' references are counted under it. No Python code runs within an operation
// of the map, so no thread waits for the interpreter lock while it holds a lock of the map.
//
// What programs call most often are slots of the type and functions of C, which cost less than nanobind's dispatch.

namespace espalier::python {
namespace {

namespace nb = nanobind;

/// Which entries an iterator visits, and what it returns of them.
struct walk {
  enum class part : std::uint8_t { keys, values, items };

  PyObject* from;  ///< in the direction of the walk; null: from the first
  PyObject* to;    ///< null: to the last
  bool includes_from = true;
  bool includes_to = true;
  bool is_reverse = false;
  part what = part::keys;
};

/// A place in a map, with copies of the entries that follow.
class cursor {
 public:
  cursor() = default;
  cursor(const cursor&) = delete;
  cursor& operator=(const cursor&) = delete;
  virtual ~cursor() = default;
  /// A new reference; null without an error: there are no more.
  virtual PyObject* next() = 0;
  [[nodiscard]] virtual int traverse(visitproc visit, void* context) const = 0;
  /// There are no more.
  virtual void clear() = 0;
};

/// A map whose types only its implementation knows. Functions return new references.
class any_map {
 public:
  any_map() = default;
  any_map(const any_map&) = delete;
  any_map& operator=(const any_map&) = delete;
  virtual ~any_map() = default;

  /// `otherwise` may be null: then an absent key is a KeyError.
  virtual PyObject* find(PyObject* key, PyObject* otherwise) const = 0;
  virtual PyObject* extract(PyObject* key, PyObject* otherwise) = 0;
  virtual PyObject* find_or_insert(PyObject* key, PyObject* value) = 0;
  [[nodiscard]] virtual int contains(PyObject* key) const = 0;
  virtual int assign(PyObject* key, PyObject* value) = 0;
  virtual int erase(PyObject* key) = 0;
  /// The last item, or the first one, which it erases; null without an error: there is none.
  virtual PyObject* pop(bool last) = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
  virtual void clear() = 0;

  [[nodiscard]] virtual std::unique_ptr<cursor> begin(const walk& of) const = 0;
  virtual void erase(const walk& of) = 0;

  virtual std::size_t insert_many(nb::handle keys, nb::handle values, bool overwrites) = 0;
  virtual nb::object find_many(nb::handle keys, nb::handle values, nb::handle found) const = 0;
  virtual std::size_t erase_many(nb::handle keys) = 0;

  [[nodiscard]] virtual int traverse(visitproc visit, void* context) const = 0;
};

template <class T>
using array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The elements of a batch: of an array of integers, or of a sequence.
template <class Kind>
class batch : public elements<Kind> {
  using elements<Kind>::elements;
};
template <>
class batch<integers> {
 public:
  explicit batch(nb::handle from) : from_(nb::cast<array<const std::int64_t>>(from, false)) {}
  [[nodiscard]] std::size_t size() const noexcept { return from_.size(); }
  [[nodiscard]] const std::int64_t* data() const noexcept { return from_.data(); }

 private:
  array<const std::int64_t> from_;
};

/// Other threads of Python run meanwhile, unless there are objects.
template <class Values>
using released = std::conditional_t<Values::are_objects, std::monostate, without_interpreter_lock>;

/// Py_DECREF, for an end that may end another one of these, and so on. What is deeper than the stack may be waits for the
/// outermost call.
void end_reference(PyObject* object) noexcept {
  constexpr unsigned deepest = 50;
  thread_local unsigned depth = 0;
  thread_local std::vector<PyObject*> waiting;
  if (depth == deepest) {
    try {
      return waiting.push_back(object);
    } catch (const std::bad_alloc&) {  // then by recursion
    }
  }
  ++depth;
  Py_DECREF(object);
  while (depth == 1 && !waiting.empty()) {
    PyObject* const next = waiting.back();
    waiting.pop_back();
    Py_DECREF(next);
  }
  --depth;
}

template <class Keys, class Values>
class map_of final : public any_map {
  using key_type = typename Keys::stored;
  using key_view = typename Keys::view;
  using mapped = typename Values::stored;
  using map_type = espalier::ordered_map<key_type, mapped>;

 public:
  ~map_of() override { free_values(map_); }

  PyObject* find(PyObject* key, PyObject* otherwise) const override {
    const auto k = Keys::read(key);
    if (!k) return nullptr;
    PyObject* found = nullptr;
    bool is_there = false;
    if constexpr (std::is_same_v<Values, byte_strings>) {
      is_there = map_.find(*k, [&](const mapped& value) { found = Values::make(value); });
    } else if (const auto value = map_.find(*k)) {
      is_there = true;
      found = Values::make(*value);
    }
    return is_there ? found : absent(key, otherwise);
  }
  PyObject* extract(PyObject* key, PyObject* otherwise) override {
    const auto k = Keys::read(key);
    if (!k) return nullptr;
    const auto value = map_.extract(*k);
    return value ? passed_on(*value) : absent(key, otherwise);
  }
  PyObject* find_or_insert(PyObject* key, PyObject* value) override {
    const auto k = Keys::read(key);
    const auto v = k ? Values::read(value) : std::nullopt;
    if (!v) return nullptr;
    const auto result = map_.find_or_insert(*k, mapped(*v));
    if constexpr (Values::are_objects)
      if (result.inserted) Py_INCREF(result.value);
    return Values::make(result.value);
  }
  [[nodiscard]] int contains(PyObject* key) const override {
    const auto k = Keys::read(key);
    return !k ? -1 : map_.contains(*k) ? 1 : 0;
  }
  int assign(PyObject* key, PyObject* value) override {
    const auto k = Keys::read(key);
    const auto v = k ? Values::read(value) : std::nullopt;
    if (!v) return -1;
    assign(*k, *v);
    return 0;
  }
  int erase(PyObject* key) override {
    const auto k = Keys::read(key);
    if (!k) return -1;
    if (remove(*k)) return 0;
    PyErr_SetObject(PyExc_KeyError, key);
    return -1;
  }
  PyObject* pop(bool last) override {
    const auto entry = last ? map_.pop_last() : map_.pop_first();
    if (!entry) return nullptr;
    return pair(Keys::make(entry->key), passed_on(entry->value));
  }
  [[nodiscard]] std::size_t size() const override { return map_.size(); }
  void clear() override {
    if constexpr (Values::are_objects) {
      // What a value runs when its last reference ends sees an empty map.
      map_type all;
      all.swap(map_);
      free_values(all);
    } else {
      const without_interpreter_lock without_lock;
      map_.clear();
    }
  }

  [[nodiscard]] std::unique_ptr<cursor> begin(const walk& of) const override {
    return std::make_unique<place>(map_, of);
  }
  void erase(const walk& of) override {
    place at(map_, of);
    while (const auto* entry = at.next_entry()) remove(entry->first);
  }

  std::size_t insert_many(nb::handle keys, nb::handle values, bool overwrites) override {
    const batch<Keys> k(keys);
    const batch<Values> v(values);
    if (k.size() != v.size()) throw nb::value_error("there are not as many values as keys");
    [[maybe_unused]] const released<Values> without_lock;
    std::size_t inserted = 0;
    for (std::size_t done = 0; done != k.size();) {
      const std::size_t end = std::min(k.size(), done + under_one_guard);
      if (overwrites || Values::are_objects) {
        for (; done != end; ++done)
          if (overwrites ? assign(k.data()[done], v.data()[done]) : insert(k.data()[done], v.data()[done]))
            ++inserted;
      } else {
        std::vector<typename map_type::value_type> entries;
        entries.reserve(end - done);
        for (; done != end; ++done) entries.push_back({key_type(k.data()[done]), mapped(v.data()[done])});
        inserted += map_.insert_batch(entries);
      }
    }
    return inserted;
  }
  nb::object find_many(nb::handle keys, nb::handle values, nb::handle found) const override {
    const batch<Keys> k(keys);
    const auto is_there = nb::cast<array<bool>>(found, false);
    if (is_there.size() < k.size()) throw nb::value_error("the results have no place");
    std::optional<array<std::int64_t>> to;
    if constexpr (std::is_same_v<Values, integers>) {
      to = nb::cast<array<std::int64_t>>(values, false);
      if (to->size() < k.size()) throw nb::value_error("the results have no place");
    }
    std::vector<std::optional<mapped>> results;
    nb::object all;
    if constexpr (!std::is_same_v<Values, integers>) {
      // Before the search: the garbage collector, which runs where a list is made, may end what was found.
      all = nb::steal(PyList_New(static_cast<Py_ssize_t>(k.size())));
      if (!all.is_valid()) nb::raise_python_error();
    }
    {
      [[maybe_unused]] const released<Values> without_lock;
      results.resize(k.size());
      for (std::size_t done = 0; done != k.size();) {
        const std::size_t now = std::min(k.size() - done, under_one_guard);
        map_.find_batch({k.data() + done, now}, {results.data() + done, now});
        done += now;
      }
      for (std::size_t i = 0; i != results.size(); ++i) {
        is_there.data()[i] = results[i].has_value();
        if constexpr (std::is_same_v<Values, integers>) to->data()[i] = results[i].value_or(0);
      }
    }
    if constexpr (std::is_same_v<Values, integers>) {
      return nb::borrow(values);
    } else {
      for (std::size_t i = 0; i != results.size(); ++i) {
        PyObject* one = results[i] ? Values::make(*results[i]) : Py_NewRef(Py_None);
        if (one == nullptr) nb::raise_python_error();
        PyList_SetItem(all.ptr(), static_cast<Py_ssize_t>(i), one);
      }
      return all;
    }
  }
  std::size_t erase_many(nb::handle keys) override {
    const batch<Keys> k(keys);
    std::size_t erased = 0;
    [[maybe_unused]] const released<Values> without_lock;
    for (std::size_t done = 0; done != k.size();) {
      const std::size_t end = std::min(k.size(), done + under_one_guard);
      if constexpr (Values::are_objects) {
        for (; done != end; ++done)
          if (remove(k.data()[done])) ++erased;
      } else {
        erased += map_.erase_batch({k.data() + done, end - done});
        done = end;
      }
    }
    return erased;
  }

  [[nodiscard]] int traverse(visitproc visit, void* context) const override {
    int result = 0;
    if constexpr (Values::are_objects) {
      map_.scan([&](const auto&, PyObject* value) {
        result = visit(value, context);
        return result == 0;
      });
    }
    return result;
  }

 private:
  static constexpr std::size_t under_one_guard = 512;
  using entry_type = std::pair<key_type, mapped>;

  /// Entries that each count as a reference of their value.
  class counted_entries : public std::vector<entry_type> {
   public:
    counted_entries() = default;
    counted_entries(const counted_entries&) = delete;
    counted_entries& operator=(const counted_entries&) = delete;
    ~counted_entries() {
      if constexpr (Values::are_objects)
        for (const auto& entry : *this) end_reference(entry.second);
    }
  };

  class place final : public cursor {
   public:
    place(const map_type& map, const walk& of)
        : map_(map),
          from_(bound(of.from)),
          to_(bound(of.to)),
          what_(of.what),
          is_reverse_(of.is_reverse),
          includes_from_(of.includes_from),
          includes_to_(of.includes_to) {}

    PyObject* next() override {
      const auto* entry = next_entry();
      if (entry == nullptr) return nullptr;
      switch (what_) {
        case walk::part::keys:
          return Keys::make(entry->first);
        case walk::part::values:
          return Values::make(entry->second);
        case walk::part::items:
          break;
      }
      return pair(Keys::make(entry->first), Values::make(entry->second));
    }
    [[nodiscard]] int traverse(visitproc visit, void* context) const override {
      if constexpr (Values::are_objects) {
        for (const auto& entry : entries_)
          if (const int result = visit(entry.second, context); result != 0) return result;
      }
      return 0;
    }
    void clear() override {
      is_over_ = true;
      at_ = 0;
      counted_entries().swap(entries_);
    }
    /// Lasts until the next call.
    const entry_type* next_entry() {
      // What the end of a value runs may have moved this place meanwhile.
      while (at_ == entries_.size()) {
        if (is_over_) return nullptr;
        read();
      }
      return &entries_[at_++];
    }

   private:
    static std::optional<key_type> bound(PyObject* key) {
      if (key == nullptr) return std::nullopt;
      const auto view = Keys::read(key);
      if (!view) nb::raise_python_error();
      return key_type(*view);
    }
    void read() {
      // More at a time the longer the walk is: a walk to the first entry is short.
      const std::size_t most = entries_.empty() ? 2 : std::min(entries_.size() * 4, under_one_guard);
      counted_entries before;
      before.reserve(most);
      before.swap(entries_);
      at_ = 0;
      if (!before.empty()) {
        from_ = before.back().first;
        includes_from_ = false;
      }
      const auto each = [&](const auto& key, const mapped& value) {
        if (!includes_from_ && from_ && key == *from_) return true;
        if (to_ && (is_reverse_ ? key < *to_ : *to_ < key)) return false;
        if (to_ && !includes_to_ && key == *to_) return false;
        entries_.emplace_back(key, value);
        if constexpr (Values::are_objects) Py_INCREF(value);
        return entries_.size() != most;
      };
      if (is_reverse_)
        from_ ? map_.reverse_scan(*from_, each) : map_.reverse_scan(each);
      else
        from_ ? map_.scan(*from_, each) : map_.scan(each);
      is_over_ = entries_.size() != most;
    }

    const map_type& map_;
    std::optional<key_type> from_;
    std::optional<key_type> to_;
    counted_entries entries_;
    std::size_t at_ = 0;
    walk::part what_;
    bool is_reverse_;
    bool includes_from_;
    bool includes_to_;
    bool is_over_ = false;
  };

  static PyObject* absent(PyObject* key, PyObject* otherwise) noexcept {
    if (otherwise != nullptr) return Py_NewRef(otherwise);
    PyErr_SetObject(PyExc_KeyError, key);
    return nullptr;
  }
  /// Of what has left the map, whose reference the caller gets.
  static PyObject* passed_on(const mapped& value) noexcept {
    if constexpr (Values::are_objects)
      return value;
    else
      return Values::make(value);
  }
  static PyObject* pair(PyObject* key, PyObject* value) noexcept {
    const reference k = nb::steal(key);
    const reference v = nb::steal(value);
    return k.is_valid() && v.is_valid() ? PyTuple_Pack(2, key, value) : nullptr;
  }

  bool insert(key_view key, typename Values::view value) {
    if constexpr (Values::are_objects) Py_INCREF(value);
    const auto undone = [&] {
      if constexpr (Values::are_objects) Py_DECREF(value);
    };
    try {
      if (map_.insert(key, mapped(value))) return true;
    } catch (...) {
      undone();
      throw;
    }
    undone();
    return false;
  }
  /// Whether the key was absent.
  bool assign(key_view key, typename Values::view value) {
    if constexpr (!Values::are_objects) {
      return map_.insert_or_assign(key, mapped(value));
    } else {
      Py_INCREF(value);
      std::optional<PyObject*> before;
      try {
        before = map_.exchange(key, value);
      } catch (...) {
        Py_DECREF(value);
        throw;
      }
      if (before) Py_DECREF(*before);
      return !before;
    }
  }
  bool remove(key_view key) {
    if constexpr (!Values::are_objects) {
      return map_.erase(key);
    } else {
      const auto before = map_.extract(key);
      if (before) Py_DECREF(*before);
      return before.has_value();
    }
  }
  static void free_values(map_type& map) {
    if constexpr (Values::are_objects) map.scan([](const auto&, PyObject* value) { end_reference(value); });
  }

  map_type map_;
};

// The types of Python --------------------------------------------------------------------------------------------------

/// The Python object is this.
struct ordered_map_object {
  std::unique_ptr<any_map> map;
};
/// An iterator, which keeps its map.
struct cursor_object {
  reference map;
  std::unique_ptr<cursor> at;
};

template <class Object>
Object* object_of(PyObject* self) noexcept {
  // A class that derives from it may not have called __init__.
  if (nb::inst_ready(self)) [[likely]]
    return nb::inst_ptr<Object>(self);
  PyErr_SetString(PyExc_TypeError, "__init__ was not called");
  return nullptr;
}

/// f(the map), or `otherwise` with a Python error.
template <class Result, class F>
Result with_map(PyObject* self, Result otherwise, F&& f) noexcept {
  auto* object = object_of<ordered_map_object>(self);
  if (object == nullptr) return otherwise;
  return guarded([&]() -> Result { return f(*object->map); }, otherwise);
}

PyObject* make_cursor(PyObject* self, const walk& of) {
  return with_map<PyObject*>(self, nullptr, [&](const any_map& map) {
    return nb::cast(cursor_object{nb::borrow(self), map.begin(of)}).release().ptr();
  });
}
PyObject* map_iterate(PyObject* self) { return make_cursor(self, {}); }

/// The keys of a slice.
walk part_of(const nb::object& slice, walk::part what, std::array<nb::object, 3>& parts) {
  parts = {slice.attr("start"), slice.attr("stop"), slice.attr("step")};
  if (!parts[2].is_none()) {
    PyErr_SetString(PyExc_ValueError, "a slice of keys has no step");
    nb::raise_python_error();
  }
  const auto bound = [](const nb::object& o) { return o.is_none() ? nullptr : o.ptr(); };
  return {.from = bound(parts[0]), .to = bound(parts[1]), .includes_to = false, .what = what};
}

PyObject* map_subscript(PyObject* self, PyObject* key) {
  if (PySlice_Check(key)) {
    return guarded(
        [&] {
          std::array<nb::object, 3> parts;
          const reference items =
              nb::steal(make_cursor(self, part_of(nb::borrow(key), walk::part::items, parts)));
          return items.is_valid() ? PySequence_List(items.ptr()) : nullptr;
        },
        static_cast<PyObject*>(nullptr));
  }
  return with_map<PyObject*>(self, nullptr, [&](const any_map& map) { return map.find(key, nullptr); });
}
int map_assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
  return with_map(self, -1, [&](any_map& map) {
    if (value != nullptr) return map.assign(key, value);
    if (!PySlice_Check(key)) return map.erase(key);
    std::array<nb::object, 3> parts;
    map.erase(part_of(nb::borrow(key), walk::part::keys, parts));
    return 0;
  });
}
int map_contains(PyObject* self, PyObject* key) {
  return with_map(self, -1, [&](const any_map& map) { return map.contains(key); });
}
Py_ssize_t map_length(PyObject* self) {
  return with_map(self, Py_ssize_t{-1},
                  [](const any_map& map) { return static_cast<Py_ssize_t>(map.size()); });
}
int map_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  // Nothing here may throw: a map that is visited in part would be freed while it is in use.
  return nb::inst_ready(self) ? nb::inst_ptr<ordered_map_object>(self)->map->traverse(visit, arg) : 0;
}
int map_clear(PyObject* self) {
  return with_map(self, 0, [](any_map& map) {
    map.clear();
    return 0;
  });
}

/// Methods that take a key, and something that may be left out.
template <PyObject* (*Call)(any_map&, PyObject* key, PyObject* other)>
PyObject* key_method(PyObject* self, PyObject* const* arguments, Py_ssize_t n) {
  if (n != 1 && n != 2) {
    PyErr_SetString(PyExc_TypeError, "one or two arguments are needed");
    return nullptr;
  }
  return with_map<PyObject*>(
      self, nullptr, [&](any_map& map) { return Call(map, arguments[0], n == 2 ? arguments[1] : nullptr); });
}
PyObject* call_get(any_map& map, PyObject* key, PyObject* otherwise) {
  return map.find(key, otherwise != nullptr ? otherwise : Py_None);
}
PyObject* call_pop(any_map& map, PyObject* key, PyObject* otherwise) { return map.extract(key, otherwise); }
PyObject* call_setdefault(any_map& map, PyObject* key, PyObject* value) {
  return map.find_or_insert(key, value != nullptr ? value : Py_None);
}

PyObject* cursor_next(PyObject* self) {
  auto* object = object_of<cursor_object>(self);
  return object == nullptr
             ? nullptr
             : guarded([&]() -> PyObject* { return object->at->next(); }, static_cast<PyObject*>(nullptr));
}
int cursor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto* object = nb::inst_ptr<cursor_object>(self);
  Py_VISIT(object->map.ptr());
  return object->at->traverse(visit, arg);
}

int cursor_clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<cursor_object>(self)->at->clear();
  return 0;
}

PyCFunction c_function(PyObject* (*with_arguments)(PyObject*, PyObject* const*, Py_ssize_t)) noexcept {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(with_arguments));
}
PyMethodDef map_methods[] = {{"get", c_function(key_method<call_get>), METH_FASTCALL, nullptr},
                             {"pop", c_function(key_method<call_pop>), METH_FASTCALL, nullptr},
                             {"setdefault", c_function(key_method<call_setdefault>), METH_FASTCALL, nullptr},
                             {nullptr, nullptr, 0, nullptr}};

PyType_Slot map_slots[] = {{Py_mp_subscript, reinterpret_cast<void*>(map_subscript)},
                           {Py_mp_ass_subscript, reinterpret_cast<void*>(map_assign_subscript)},
                           {Py_mp_length, reinterpret_cast<void*>(map_length)},
                           {Py_sq_contains, reinterpret_cast<void*>(map_contains)},
                           {Py_tp_iter, reinterpret_cast<void*>(map_iterate)},
                           {Py_tp_traverse, reinterpret_cast<void*>(map_traverse)},
                           {Py_tp_clear, reinterpret_cast<void*>(map_clear)},
                           {Py_tp_methods, map_methods},
                           {0, nullptr}};

PyType_Slot cursor_slots[] = {{Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
                              {Py_tp_iternext, reinterpret_cast<void*>(cursor_next)},
                              {Py_tp_traverse, reinterpret_cast<void*>(cursor_traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(cursor_clear)},
                              {0, nullptr}};

template <class Keys>
std::unique_ptr<any_map> make_map(nb::handle values) {
  if (values.is(reinterpret_cast<PyObject*>(&PyLong_Type))) return std::make_unique<map_of<Keys, integers>>();
  if (values.is(reinterpret_cast<PyObject*>(&PyBytes_Type)))
    return std::make_unique<map_of<Keys, byte_strings>>();
  if (values.is(reinterpret_cast<PyObject*>(&PyBaseObject_Type)))
    return std::make_unique<map_of<Keys, objects>>();
  throw nb::type_error("values are int, bytes or object");
}
std::unique_ptr<any_map> make_map(nb::handle keys, nb::handle values) {
  if (keys.is(reinterpret_cast<PyObject*>(&PyLong_Type))) return make_map<integers>(values);
  if (keys.is(reinterpret_cast<PyObject*>(&PyBytes_Type))) return make_map<byte_strings>(values);
  throw nb::type_error("keys are int or bytes");
}

/// The arguments of a walk: None leaves out a bound.
walk walk_of(nb::handle from, nb::handle to, bool includes_from, bool includes_to, bool is_reverse,
             int part) {
  return {.from = from.is_none() ? nullptr : from.ptr(),
          .to = to.is_none() ? nullptr : to.ptr(),
          .includes_from = includes_from,
          .includes_to = includes_to,
          .is_reverse = is_reverse,
          .what = static_cast<walk::part>(part)};
}

}  // namespace

void add_ordered_map(nb::module_& module) {
  nb::class_<cursor_object>(module, "Cursor", nb::type_slots(cursor_slots));
  nb::class_<ordered_map_object>(module, "OrderedMap", nb::type_slots(map_slots), nb::is_weak_referenceable())
      .def("__init__", [](ordered_map_object* self, nb::handle keys,
                          nb::handle values) { new (self) ordered_map_object{make_map(keys, values)}; })
      .def("clear", [](ordered_map_object& self) { self.map->clear(); })
      .def("_pop",
           [](ordered_map_object& self, bool last) -> nb::object {
             PyObject* item = self.map->pop(last);
             if (item != nullptr) return nb::steal(item);
             if (PyErr_Occurred() != nullptr) nb::raise_python_error();
             throw nb::key_error("the map is empty");
           })
      .def(
          "_walk",
          [](nb::handle self, nb::handle from, nb::handle to, bool includes_from, bool includes_to,
             bool is_reverse, int part) {
            PyObject* made =
                make_cursor(self.ptr(), walk_of(from, to, includes_from, includes_to, is_reverse, part));
            if (made == nullptr) nb::raise_python_error();
            return nb::steal(made);
          },
          nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg())
      .def("_insert_many", [](ordered_map_object& self, nb::handle keys, nb::handle values,
                              bool overwrites) { return self.map->insert_many(keys, values, overwrites); })
      .def(
          "_find_many",
          [](const ordered_map_object& self, nb::handle keys, nb::handle values, nb::handle found) {
            return self.map->find_many(keys, values, found);
          },
          nb::arg(), nb::arg().none(), nb::arg())
      .def("_erase_many",
           [](ordered_map_object& self, nb::handle keys) { return self.map->erase_many(keys); });
}

}  // namespace espalier::python
