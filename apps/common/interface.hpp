#pragma once

namespace espalier::app {

/// The base of interfaces: objects that are not copied, and are destroyed through pointers.
class interface {
 public:
  interface(const interface&) = delete;
  interface& operator=(const interface&) = delete;
  virtual ~interface() = default;

 protected:
  interface() = default;
};

}  // namespace espalier::app
