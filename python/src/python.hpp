#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/hw/pause.hpp"

// What Python has, and what the library has instead. A function that returns a null pointer, -1 or nothing has set a
// Python error.

namespace espalier::python {

/// Py_INCREF and Py_DECREF, by scope.
using reference = nanobind::object;

/// f(), whose C++ exceptions become Python's, and then `otherwise`.
template <class F, class Result>
Result guarded(F&& f, Result otherwise) noexcept {
  try {
    return f();
  } catch (nanobind::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return otherwise;
}

/// An entry's part that is an integer of 64 bits.
struct integers {
  using stored = std::int64_t;
  using view = std::int64_t;
  static constexpr bool are_objects = false;

  static std::optional<view> read(PyObject* from) noexcept {
    reference index;
    if (!PyLong_Check(from)) {
      index = nanobind::steal(PyNumber_Index(from));
      if (!index.is_valid()) return std::nullopt;
      from = index.ptr();
    }
    int overflow = 0;
    const std::int64_t number = PyLong_AsLongLongAndOverflow(from, &overflow);
    if (overflow != 0) {
      PyErr_SetString(PyExc_OverflowError, "the integer has more than 64 bits");
      return std::nullopt;
    }
    return number;
  }
  static PyObject* make(view number) noexcept { return PyLong_FromLongLong(number); }
};

/// One that is a byte string. A view lasts as long as the Python object.
struct byte_strings {
  using stored = std::string;
  using view = std::string_view;
  static constexpr bool are_objects = false;

  static std::optional<view> read(PyObject* from) noexcept {
    if (!PyBytes_Check(from)) {
      PyErr_Format(PyExc_TypeError, "bytes are needed, not %R", Py_TYPE(from));
      return std::nullopt;
    }
    char* data = nullptr;
    Py_ssize_t size = 0;
    PyBytes_AsStringAndSize(from, &data, &size);
    return view(data, static_cast<std::size_t>(size));
  }
  static PyObject* make(view bytes) noexcept {
    return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
  }
};

/// A value that is any Python object. What is stored counts as a reference.
struct objects {
  using stored = PyObject*;
  using view = PyObject*;
  static constexpr bool are_objects = true;

  static std::optional<view> read(PyObject* from) noexcept { return from; }
  static PyObject* make(view object) noexcept { return Py_NewRef(object); }
};

/// The elements of a Python sequence, which stay as they are while other threads run.
template <class Kind>
class elements {
 public:
  /// Throws nanobind::python_error.
  explicit elements(nanobind::handle sequence) : held_(nanobind::steal(PySequence_Tuple(sequence.ptr()))) {
    if (!held_.is_valid()) nanobind::raise_python_error();
    const Py_ssize_t size = PyTuple_Size(held_.ptr());
    views_.reserve(static_cast<std::size_t>(size));
    for (Py_ssize_t i = 0; i != size; ++i) {
      const auto view = Kind::read(PyTuple_GetItem(held_.ptr(), i));
      if (!view) nanobind::raise_python_error();
      views_.push_back(*view);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return views_.size(); }
  [[nodiscard]] const typename Kind::view* data() const noexcept { return views_.data(); }

 private:
  reference held_;
  std::vector<typename Kind::view> views_;
};

/// Takes the interpreter lock by f(). A thread that wants it while the interpreter ends is ended by Python before 3.14, which no
/// frame of C++ that is noexcept lets pass: it waits for the end of the process, as it does in later versions.
template <class F>
auto when_python_goes_on(F f) noexcept {
  try {
    return f();
  } catch (...) {
    while (true) pause();
  }
}

/// Releases the interpreter lock in its scope, for a batch. When it ends, another thread is often in Python between two
/// batches, for a microsecond or two. A thread that slept until then would take longer to wake up, and find the lock taken
/// again. So it waits for some time before it asks for the lock.
class without_interpreter_lock {
 public:
  // Relaxed throughout: what is read decides how long a thread waits, and nothing else.
  without_interpreter_lock() noexcept {
    state_ = PyEval_SaveThread();
    // Afterwards, so that who waits for it finds the lock free.
    is_between_batches_.store(false, std::memory_order_relaxed);
  }
  without_interpreter_lock(const without_interpreter_lock&) = delete;
  without_interpreter_lock& operator=(const without_interpreter_lock&) = delete;
  ~without_interpreter_lock() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(5);
    while (is_between_batches_.load(std::memory_order_relaxed) && std::chrono::steady_clock::now() < end)
      hw::cpu_relax();
    when_python_goes_on([this] { PyEval_RestoreThread(state_); });
    is_between_batches_.store(true, std::memory_order_relaxed);
  }

 private:
  PyThreadState* state_;
  /// Whether the last thread that began or ended a batch has ended one.
  static inline std::atomic<bool> is_between_batches_ = false;
};

/// Takes it in its scope, within that of one of the above.
class with_interpreter_lock {
 public:
  with_interpreter_lock() noexcept : state_(when_python_goes_on(PyGILState_Ensure)) {}
  with_interpreter_lock(const with_interpreter_lock&) = delete;
  with_interpreter_lock& operator=(const with_interpreter_lock&) = delete;
  ~with_interpreter_lock() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

/// Adds the classes to the module.
void add_ordered_map(nanobind::module_& module);
void add_cache(nanobind::module_& module);

}  // namespace espalier::python
