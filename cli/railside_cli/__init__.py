"""What people type: pictures, reasons and the demo. It must never be imported by what runs in a cluster."""
